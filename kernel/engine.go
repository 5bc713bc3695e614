package kernel

import "github.com/kprobefs/kprobefs/kernel/cpu"

// Engine is what executes the guest's code.
type Engine = cpu.Engine

// Engines.
const (
	EngineAuto   = cpu.Auto
	EngineNative = cpu.Native
	EngineInterp = cpu.Interp
)

// ParseEngine returns the engine of a name: auto, native or interp. It fails with
// EINVAL for another name.
func ParseEngine(name string) (Engine, error) { return cpu.ParseEngine(name) }
