package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestAction plays the steps of action.yml as a runner does, with an empty cache but this
// machine's Go, which stands for the network. The program tells the version of the action, and the steps set the outputs.
func TestAction(t *testing.T) {
	needTime(t)
	needFUSE(t)
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	var action struct {
		Outputs map[string]struct{ Value string }
		Runs    struct {
			Steps []struct {
				ID, Uses, Run, Shell string
				Env                  map[string]string
			}
		}
	}
	b, err := os.ReadFile("../action.yml")
	if err == nil {
		err = yaml.Unmarshal(b, &action)
	}
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	temp := t.TempDir()
	outputs := filepath.Join(temp, "outputs")
	values := map[string]string{"inputs.version": "", "github.action_path": top, "github.action_ref": "v9.8.7"}
	caches, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE").Output()
	cache := strings.Fields(string(caches))
	if err != nil || len(cache) != 2 {
		t.Fatalf("%q, %v", caches, err)
	}
	before := goSettings(t)
	for _, step := range action.Runs.Steps {
		if step.Uses != "" {
			if strings.HasPrefix(step.Uses, "actions/setup-") {
				t.Errorf("%s changes what later steps find", step.Uses)
			}
			continue
		}
		cmd := exec.Command(bash, "--noprofile", "--norc", "-eo", "pipefail", "-c", step.Run)
		cmd.Env = append(os.Environ(), "RUNNER_TEMP="+temp, "GITHUB_OUTPUT="+outputs, "GITHUB_RUN_ID=1", "SUDO=", "PREFIX="+temp+"/prefix",
			"KPROBEFS_GOCACHE="+cache[0], "KPROBEFS_GOMODCACHE="+cache[1])
		for name, value := range step.Env {
			cmd.Env = append(cmd.Env, name+"="+expand(value, values))
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s\nof\n%s", err, out, step.Run)
		}
		said, _ := os.ReadFile(outputs)
		for line := range strings.Lines(string(said)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			values["steps."+step.ID+".outputs."+name] = value
		}
		_ = os.Remove(outputs)
	}
	at := temp + "/prefix/bin/kprobefs"
	for name, want := range map[string]string{"version": "kprobefs v9.8.7", "path": at} {
		if got := expand(action.Outputs[name].Value, values); got != want && !strings.HasPrefix(got, want+" (") {
			t.Errorf("output %s: %q, want %q", name, got, want)
		}
	}
	if out, err := exec.Command(at, "version").Output(); err != nil || !strings.HasPrefix(string(out), "kprobefs v9.8.7 (") {
		t.Errorf("%q, %v", out, err)
	}
	if after := goSettings(t); after != before {
		t.Errorf("the job's Go before\n%s\nand after\n%s", before, after)
	}
}

// goSettings returns the settings of the job's Go.
func goSettings(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("go", "env", "GOVERSION", "GOROOT", "GOENV", "GOFLAGS", "GOTOOLCHAIN", "GOPATH")
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// expand replaces a workflow's expressions ${{ NAME }}.
func expand(text string, values map[string]string) string {
	for name, value := range values {
		text = strings.ReplaceAll(text, "${{ "+name+" }}", value)
	}
	return text
}
