//go:build !amd64

package mirror

import "errors"

// setResult sets what the call returns at whose end a thread has stopped.
func setResult(int, int64) error { return errors.ErrUnsupported }
