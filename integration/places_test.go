package integration

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// usualPlaces makes a script of testdata/modules/debian do below exec what it did on
// Linux: insmod(8) and rmmod(8) load and unload, and files are looked for where Linux has
// them.
var usualPlaces = strings.NewReplacer(
	`[ -n "$KPROBEFS_MNT" ]`, "false",
	"/usr/bin/golden insmod", "/usr/sbin/insmod",
	"rmmod ", "busybox rmmod ",
	"sysfs=$KPROBEFS_MNT/sys", "sysfs=/sys",
	"$KPROBEFS_MNT/dev", "/dev",
	"$KPROBEFS_MNT/proc/misc", "/proc/misc",
	"$KPROBEFS_MNT/proc/devices", "/proc/devices",
)

// TestUsualPlaces: what modules make in /dev and /sys is there from the return of insmod
// to that of rmmod, for root and for an ordinary user.
func TestUsualPlaces(t *testing.T) {
	needFUSE(t)
	needBusybox(t)
	needTool(t, "kmod", "kmod")
	masks, err := Masks()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := BuildModules(DebianModules)
	if errors.Is(err, ErrNoHeaders) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	cases, err := LoadModuleCases(".", DebianModules, objects)
	if err != nil {
		t.Fatal(err)
	}
	played := 0
	for _, c := range cases {
		if !slices.Contains([]string{"devices", "kobjects"}, c.Name) {
			continue
		}
		c.Script = usualPlaces.Replace(c.Script)
		c.Files["modules.sh"] = []byte(usualPlaces.Replace(string(c.Files["modules.sh"])))
		for who, user := range users(t) {
			played++
			t.Run(c.Name+"/"+who, func(t *testing.T) { playOne(t, c, user, masks) })
		}
	}
	if played < 2 {
		t.Errorf("%d scripts were played", played)
	}
}
