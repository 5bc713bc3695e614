package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds the program in a directory and returns its path. The flags are those of
// go build. The current directory must be in the project.
func Build(ctx context.Context, dir string, flags ...string) (string, error) {
	program := filepath.Join(dir, "kprobefs")
	args := append([]string{"build", "-buildvcs=false", "-o", program}, flags...)
	out, err := exec.CommandContext(ctx, "go", append(args, "github.com/kprobefs/kprobefs/cmd/kprobefs")...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building kprobefs: %w\n%s", err, out)
	}
	return program, nil
}

// EngineFlags returns the flags of kprobefs that choose the engine with which scripts and
// suites are played: that of $KPROBEFS_TEST_ENGINE, or none.
func EngineFlags() []string {
	if engine := os.Getenv("KPROBEFS_TEST_ENGINE"); engine != "" {
		return []string{"--engine", engine}
	}
	return nil
}
