package integration

// leftOut510 are the scripts that 5.10 is not recorded on.
var leftOut510 = map[string]string{
	"dd_directory":       "the host's kernel refuses the flags before we are asked",
	"sh_parallel":        "groups cannot be deleted with their events, which stay in the order of the race",
	"events_far_symbols": "5.10 has the one function and not the other, our guest the other way round",
}

// notYet510 are the scripts that do not give here what 5.10 gives.
var notYet510 = map[string]string{}
