package supervise

import (
	"os"
	"testing"

	"github.com/kprobefs/kprobefs/internal/testns"
)

// The tests run in a private mount namespace.
func TestMain(m *testing.M) { os.Exit(testns.Main(m.Run)) }
