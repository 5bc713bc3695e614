package tracefs

import (
	"context"

	"github.com/kprobefs/kprobefs/fs/seqfile"
	"github.com/kprobefs/kprobefs/kernel/abi"
	"github.com/kprobefs/kprobefs/kprobes/tracing/ftracer"
)

// functionRows are the files about functions that exist only once.
func functionRows(t *ftracer.Tracers) []*seqfile.Row {
	rows := []*seqfile.Row{
		{Name: "available_filter_functions", Mode: modeRO, FOps: abi.FOpsSeq, Open: openLines(t.AvailableFunctions)},
		{Name: "enabled_functions", Mode: modeRO, FOps: abi.FOpsSeq, Open: openLines(t.EnabledFunctions)},
		{Name: "stack_trace", Mode: modeRO, FOps: abi.FOpsSeq, Open: openLines(t.StackTrace)},
		value("stack_max_size", modeRW, text1(t.StackMaxSize), t.SetStackMaxSize),
		{Name: "stack_trace_filter", Mode: modeRW, FOps: abi.FOpsSeq, Open: openFunctionSet(t.StackFilter, t.EditStackFilter)},
		{Name: "set_graph_function", Mode: modeRW, FOps: abi.FOpsSeq, Open: openGraph(t, false)},
		{Name: "set_graph_notrace", Mode: modeRW, FOps: abi.FOpsSeq, Open: openGraph(t, true)},
		value("max_graph_depth", modeRW, text1(t.MaxGraphDepth), t.SetMaxGraphDepth),
		value("dyn_ftrace_total_info", modeRO, text1(t.FunctionTotals), nil),
	}
	if addrs, ok := t.FunctionAddrs(); ok {
		rows = append(rows, &seqfile.Row{Name: "available_filter_functions_addrs", Mode: modeRO, FOps: abi.FOpsSeq, Open: openLines(addrs)})
	}
	if touched, ok := t.TouchedFunctions(); ok {
		rows = append(rows, &seqfile.Row{Name: "touched_functions", Mode: modeRO, FOps: abi.FOpsSeq, Open: openLines(touched)})
	}
	return rows
}

// openFunctions is ftrace_filter_open and ftrace_notrace_open.
func openFunctions(a *ftracer.Array, notrace bool) opener {
	show := func() []string { return a.FunctionFilter(notrace) }
	return openFunctionSet(show, func(truncate bool) *ftracer.Edit { return a.EditFunctions(notrace, truncate) })
}

// openGraph is ftrace_graph_open and ftrace_graph_notrace_open.
func openGraph(t *ftracer.Tracers, notrace bool) opener {
	show := func() []string { return t.GraphFunctions(notrace) }
	return openFunctionSet(show, func(truncate bool) *ftracer.Edit { return t.EditGraph(notrace, truncate) })
}

// openFunctionSet is ftrace_regex_open: writers work on a copy of the set.
func openFunctionSet(set func() []string, open func(truncate bool) *ftracer.Edit) opener {
	return func(_ context.Context, o *seqfile.OpenInfo) (seqfile.File, error) {
		show := lines(set)
		if !o.Writes() {
			return &seqfile.Seq{Show: show}, nil
		}
		edit := open(o.Truncates())
		return &seqfile.Seq{Show: show, Store: store(edit.Write), Close: edit.Close}, nil
	}
}
