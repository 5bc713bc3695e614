package integration

// leftOut510 are the scripts that 5.10 is not recorded on.
var leftOut510 = map[string]string{
	"dd_directory":        "the host's kernel refuses the flags before we are asked",
	"set_event_pid_blank": "the write takes nothing, and busybox tries it for ever",
	"rows_far_offset":     "what stands there is another function on each kernel",
	"sh_parallel":         "groups cannot be deleted with their events, which stay in the order of the race",
	"trace_pipe":          "a reader is not woken when recording ends, so that the script does not end either",
	"static_formats":      "the static events here have the fields of 6.1",
	"static_fields":       "the static events here have the fields of 6.1",
	"events_far_symbols":  "5.10 has the one function and not the other, our guest the other way round",
}

// notYet510 are the scripts that do not give here what 5.10 gives.
var notYet510 = map[string]string{
	"activity_dirs":  "the guest makes the files with 6.1's names and modes",
	"activity_files": "do_symlinkat has the arguments of 6.1, and do_rmdir calls vfs_rmdir",
}
