package main

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"
)

// stage is the last stage of a Containerfile, which is from scratch.
type stage struct {
	copied []string // where files and directories are put
	volume string
	config v1.Config
}

// program returns where the binary is put: what is copied to the volume is an empty directory.
func (s *stage) program() string {
	for _, to := range s.copied {
		if to != s.volume {
			return to
		}
	}
	return ""
}

// parseStage reads the last stage. It knows the instructions that a stage without a shell can have,
// and fails at others, so that both ways to build the image give the same.
func parseStage(file []byte) (s stage, err error) {
	scratch := false
	for _, line := range strings.Split(string(file), "\n") {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "FROM":
			s, scratch = stage{}, rest == "scratch"
		case "", "#":
		default:
			if scratch && !strings.HasPrefix(word, "#") {
				err = s.take(word, rest)
			}
		}
		if err != nil {
			return s, fmt.Errorf("%q: %w", line, err)
		}
	}
	if !scratch || s.program() == "" || len(s.config.Entrypoint) == 0 {
		return s, fmt.Errorf("the last stage must be FROM scratch, with COPY and ENTRYPOINT")
	}
	return s, nil
}

func (s *stage) take(word, rest string) error {
	switch fields := strings.Fields(rest); word {
	case "COPY":
		s.copied = append(s.copied, fields[len(fields)-1])
	case "VOLUME":
		s.volume, s.config.Volumes = rest, map[string]struct{}{rest: {}}
	case "STOPSIGNAL":
		s.config.StopSignal = rest
	case "USER":
		s.config.User = rest
	case "ENTRYPOINT":
		return json.Unmarshal([]byte(rest), &s.config.Entrypoint)
	case "CMD":
		return json.Unmarshal([]byte(rest), &s.config.Cmd)
	default:
		return fmt.Errorf("%s is not known here", word)
	}
	return nil
}

// makeImage returns an image of one layer: the program, and its bill of materials.
func makeImage(info *debug.BuildInfo, containerfile, program, bill []byte) (v1.Image, error) {
	s, err := parseStage(containerfile)
	if err != nil {
		return nil, err
	}
	user, err := s.user()
	if err != nil {
		return nil, err
	}
	files, err := archive([]file{
		{name: s.program(), mode: 0o755, text: program, capability: mayMount},
		{name: s.volume, mode: 0o755, dir: true, owner: user},
		{name: sbomInside, mode: 0o644, text: bill},
	})
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{CreatedBy: "make image", Created: v1.Time{Time: builtAt(info)}}})
	if err != nil {
		return nil, err
	}
	return configured(img, info, s.config)
}

// configured gives an image its platform, its labels and how it is started.
func configured(img v1.Image, info *debug.BuildInfo, c v1.Config) (v1.Image, error) {
	f, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	c.Labels = map[string]string{
		"org.opencontainers.image.title":       "kprobefs",
		"org.opencontainers.image.licenses":    "MIT",
		"org.opencontainers.image.source":      "https://" + info.Main.Path,
		"org.opencontainers.image.version":     info.Main.Version,
		"org.opencontainers.image.revision":    setting(info, "vcs.revision"),
		"org.opencontainers.image.description": "Linux's kprobes files, emulated",
	}
	f = f.DeepCopy()
	f.Architecture, f.OS, f.Created, f.Config = setting(info, "GOARCH"), setting(info, "GOOS"), v1.Time{Time: builtAt(info)}, c
	return mutate.ConfigFile(img, f)
}

// setting returns a setting of the build, or "".
func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// builtAt returns when the sources were committed: the time of the build would make each build
// another one. It is 1970 where the binary does not tell.
func builtAt(info *debug.BuildInfo) time.Time {
	if t, err := time.Parse(time.RFC3339, setting(info, "vcs.time")); err == nil {
		return t.UTC()
	}
	return time.Unix(0, 0).UTC()
}

// user returns whom the volume belongs to: who runs the program.
func (s *stage) user() (int, error) {
	if s.config.User == "" {
		return 0, nil
	}
	id, _, _ := strings.Cut(s.config.User, ":")
	n, err := strconv.Atoi(id)
	if err != nil {
		return 0, fmt.Errorf("USER %s: an image from scratch has no names of users", s.config.User)
	}
	return n, nil
}

// mayMount is cap_sys_admin=p as the attribute security.capability has it: struct vfs_cap_data of
// revision 2.
var mayMount = string(slices.Concat(
	binary.LittleEndian.AppendUint32(nil, 0x02000000), binary.LittleEndian.AppendUint32(nil, 1<<unix.CAP_SYS_ADMIN), make([]byte, 12)))

// capabilityRecord is how a tar carries that attribute.
const capabilityRecord = "SCHILY.xattr.security.capability"

// file is a file of an image, or an empty directory.
type file struct {
	name       string
	mode       int64
	dir        bool
	owner      int
	capability string
	text       []byte
}

func (f file) header() *tar.Header {
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: strings.TrimPrefix(f.name, "/"), Mode: f.mode, Uid: f.owner, Gid: f.owner,
		Size: int64(len(f.text)), ModTime: time.Unix(0, 0), Format: tar.FormatPAX,
	}
	if f.dir {
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
	}
	if f.capability != "" {
		h.PAXRecords = map[string]string{capabilityRecord: f.capability}
	}
	return h
}

// archive makes a tar of files and the directories above them, which belong to root. All are as old
// as 1970.
func archive(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{".": true}
	for _, f := range files {
		h := f.header()
		if err := addDirs(w, path.Dir(path.Clean(h.Name)), made); err != nil {
			return nil, err
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.text); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func addDirs(w *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	made[dir] = true
	if err := addDirs(w, path.Dir(dir), made); err != nil {
		return err
	}
	return w.WriteHeader(file{name: dir, mode: 0o755, dir: true}.header())
}
