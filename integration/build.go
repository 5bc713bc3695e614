package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Build builds the program in a directory and returns its path. The flags are
// go build's. The current directory must be in the project.
func Build(ctx context.Context, dir string, flags ...string) (string, error) {
	program := filepath.Join(dir, "kprobefs")
	args := append([]string{"build", "-buildvcs=false", "-o", program}, flags...)
	out, err := exec.CommandContext(ctx, "go", append(args, "github.com/kprobefs/kprobefs/cmd/kprobefs")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building kprobefs: %w\n%s", err, out)
	}
	return program, nil
}

// ExecArgs returns the arguments of kprobefs that play a command below "kprobefs exec", with
// the engine that $KPROBEFS_TEST_ENGINE names, if it does.
func ExecArgs(flags []string, command ...string) []string {
	args := []string{"exec"}
	if engine := os.Getenv("KPROBEFS_TEST_ENGINE"); engine != "" {
		args = append(args, "--engine", engine)
	}
	return slices.Concat(args, flags, []string{"--"}, command)
}
