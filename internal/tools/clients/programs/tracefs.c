// tracefs calls functions of libtracefs and prints what they return:
//
//	tracefs COMMAND [ARG]...
//
// The table at the end has the commands.
#define _GNU_SOURCE // SPLICE_F_NONBLOCK
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <event-parse.h>
#include <tracefs.h>

static int fail(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	char *err = tracefs_error_last(NULL);
	if (err)
		printf("%s", err);
	free(err);
	return 1;
}

static int result(const char *what, int ret)
{
	if (ret < 0)
		return fail(what);
	printf("%s: %d\n", what, ret);
	return 0;
}

static int print_list(char **list)
{
	for (int i = 0; list && list[i]; i++)
		puts(list[i]);
	tracefs_list_free(list);
	return 0;
}

static int dir(char **arg)
{
	puts(tracefs_tracing_dir());
	char *file = tracefs_get_tracing_file("kprobe_events");
	puts(file);
	tracefs_put_tracing_file(file);
	return 0;
}

static int systems(char **arg) { return print_list(tracefs_event_systems(NULL)); }

static int events(char **arg) { return print_list(tracefs_system_events(NULL, arg[0])); }

static int tracers(char **arg) { return print_list(tracefs_tracers(NULL)); }

static int functions(char **arg)
{
	char **list = NULL;
	int ret = tracefs_filter_functions(arg[0], NULL, &list);
	print_list(list);
	return result("filter_functions", ret);
}

static int kprobe(char **arg) { return result("kprobe_raw", tracefs_kprobe_raw(arg[0], arg[1], arg[2], arg[3])); }

static int kretprobe(char **arg) { return result("kretprobe_raw", tracefs_kretprobe_raw(arg[0], arg[1], arg[2], arg[3])); }

static int create(struct tracefs_dynevent *event)
{
	if (!event)
		return fail("alloc");
	int ret = tracefs_dynevent_create(event);
	tracefs_dynevent_free(event);
	return result("dynevent_create", ret);
}

static int eprobe(char **arg) { return create(tracefs_eprobe_alloc(arg[0], arg[1], arg[2], arg[3], arg[4])); }

static int uprobe(char **arg)
{
	return create(tracefs_uprobe_alloc(arg[0], arg[1], arg[2], strtoull(arg[3], NULL, 0), NULL));
}

static int kret(char **arg) { return create(tracefs_kretprobe_alloc(arg[0], arg[1], arg[2], arg[3], 7)); }

static int dynevents(char **arg)
{
	struct tracefs_dynevent **list = tracefs_dynevent_get_all(TRACEFS_DYNEVENT_ALL, arg[0]);
	for (int i = 0; list && list[i]; i++) {
		char *system, *event, *prefix, *addr, *format;
		int type = tracefs_dynevent_info(list[i], &system, &event, &prefix, &addr, &format);
		printf("%d %s/%s %s %s %s\n", type, system, event, prefix, addr, format ? format : "-");
	}
	tracefs_dynevent_list_free(list);
	return 0;
}

static int destroy(char **arg)
{
	struct tracefs_dynevent *event = tracefs_dynevent_get(TRACEFS_DYNEVENT_KPROBE, arg[0], arg[1]);
	if (!event)
		return fail("dynevent_get");
	return result("dynevent_destroy", tracefs_dynevent_destroy(event, arg[2] != NULL));
}

static int destroy_all(char **arg) { return result("destroy_all", tracefs_dynevent_destroy_all(TRACEFS_DYNEVENT_ALL, true)); }

static int enable(char **arg)
{
	if (tracefs_event_enable(NULL, arg[0], arg[1]))
		return fail("event_enable");
	return result("is_enabled", tracefs_event_is_enabled(NULL, arg[0], arg[1]));
}

static int disable(char **arg)
{
	if (tracefs_event_disable(NULL, arg[0], arg[1]))
		return fail("event_disable");
	return result("is_enabled", tracefs_event_is_enabled(NULL, arg[0], arg[1]));
}

static struct tep_event *find(struct tep_handle **tep, char **arg)
{
	const char *systems[] = { arg[0], NULL };
	*tep = tracefs_local_events_system(NULL, systems);
	return *tep ? tep_find_event_by_name(*tep, arg[0], arg[1]) : NULL;
}

static int format(char **arg)
{
	struct tep_handle *tep;
	struct tep_event *event = find(&tep, arg);
	if (!event)
		return fail("find_event");
	struct tep_format_field **fields = tep_event_fields(event);
	for (int i = 0; fields && fields[i]; i++)
		printf("%s %s %d %d\n", fields[i]->type, fields[i]->name, fields[i]->offset, fields[i]->size);
	free(fields);
	return 0;
}

// filter SYSTEM EVENT FIELD VALUE: FIELD is VALUE, checked by the library and by the kernel.
static int filter(char **arg)
{
	struct tep_handle *tep;
	struct tep_event *event = find(&tep, arg);
	char *text = NULL, *err = NULL;
	if (!event)
		return fail("find_event");
	if (tracefs_filter_string_append(event, &text, TRACEFS_FILTER_COMPARE, arg[2], TRACEFS_COMPARE_EQ, arg[3]))
		return fail("filter_string_append");
	if (tracefs_filter_string_verify(event, text, &err)) {
		printf("%s\n", err ? err : "no reason");
		return 1;
	}
	puts(text);
	int ret = tracefs_event_filter_apply(NULL, event, text);
	char *read = tracefs_event_file_read(NULL, arg[0], arg[1], "filter", NULL);
	printf("%s", read);
	return result("filter_apply", ret);
}

static int unfilter(char **arg)
{
	struct tep_handle *tep;
	struct tep_event *event = find(&tep, arg);
	if (!event)
		return fail("find_event");
	int ret = tracefs_event_filter_clear(NULL, event);
	printf("%s", tracefs_event_file_read(NULL, arg[0], arg[1], "filter", NULL));
	return result("filter_clear", ret);
}

static int print_record(struct tep_event *event, struct tep_record *record, int cpu, void *field)
{
	static struct trace_seq seq;
	if (!seq.buffer)
		trace_seq_init(&seq);
	trace_seq_reset(&seq);
	tep_print_event(event->tep, &seq, record, "%s %s", TEP_PRINT_NAME, TEP_PRINT_INFO);
	trace_seq_do_printf(&seq);
	printf("\n");
	return 0;
}

// records SYSTEM: what is in the buffer, from trace_pipe_raw.
static int records(char **arg)
{
	const char *systems[] = { arg[0], "ftrace", NULL };
	struct tep_handle *tep = tracefs_local_events_system(NULL, systems);
	if (!tep)
		return fail("local_events");
	return result("iterate_raw_events", tracefs_iterate_raw_events(tep, NULL, NULL, 0, print_record, NULL));
}

// follow SYSTEM EVENT: what the callback for one event is called with.
static int follow(char **arg)
{
	struct tep_handle *tep;
	if (!find(&tep, arg))
		return fail("find_event");
	if (tracefs_follow_event(tep, NULL, arg[0], arg[1], print_record, NULL))
		return fail("follow_event");
	return result("iterate_raw_events", tracefs_iterate_raw_events(tep, NULL, NULL, 0, NULL, NULL));
}

// raw: how many bytes of the buffer each way to read them gives, over all CPUs, and whether there were pages.
static int raw(char **arg)
{
	int fd = open("raw.dat", O_CREAT | O_TRUNC | O_RDWR, 0600);
	long pages = 0;
	for (int cpu = 0; cpu < 2; cpu++) {
		struct tracefs_cpu *t = tracefs_cpu_open(NULL, cpu, true);
		if (!t)
			return fail("cpu_open");
		char *page = malloc(tracefs_cpu_read_size(t));
		int n;
		while ((n = strcmp(arg[0], "write") ? tracefs_cpu_read(t, page, true) : tracefs_cpu_write(t, fd, true)) > 0)
			pages++;
		while ((n = tracefs_cpu_flush(t, page)) > 0)
			pages++;
		tracefs_cpu_close(t);
	}
	printf("pages: %s\n", pages ? "some" : "none");
	return 0;
}

static int instance(char **arg)
{
	struct tracefs_instance *i = tracefs_instance_create(arg[0]);
	if (!i)
		return fail("instance_create");
	printf("new %d, exists %d, clock %s\n", tracefs_instance_is_new(i), tracefs_instance_exists(arg[0]), tracefs_get_clock(i));
	if (tracefs_instance_file_write(i, "trace_clock", "mono") < 0)
		return fail("trace_clock");
	printf("clock %s, on %d\n", tracefs_get_clock(i), tracefs_trace_is_on(i));
	result("trace_off", tracefs_trace_off(i));
	printf("on %d\n", tracefs_trace_is_on(i));
	result("set_buffer_size", tracefs_instance_set_buffer_size(i, 64, -1));
	printf("size %zd\n", tracefs_instance_get_buffer_size(i, 0));
	result("set_affinity", tracefs_instance_set_affinity(i, "1"));
	printf("affinity %s\n", tracefs_instance_get_affinity(i));
	print_list(tracefs_instances(NULL));
	result("again", tracefs_instance_create(arg[0]) ? 0 : -1);
	result("instance_destroy", tracefs_instance_destroy(i));
	return result("exists", tracefs_instance_exists(arg[0]));
}

static int options(char **arg)
{
	enum tracefs_option_id id = tracefs_option_id(arg[0]);
	printf("%s supported %d enabled %d\n", tracefs_option_name(id), tracefs_option_is_supported(NULL, id), tracefs_option_is_enabled(NULL, id));
	bool was = tracefs_option_is_enabled(NULL, id);
	if ((was ? tracefs_option_disable : tracefs_option_enable)(NULL, id))
		return fail("option");
	printf("enabled %d\n", tracefs_option_is_enabled(NULL, id));
	return result("back", (was ? tracefs_option_enable : tracefs_option_disable)(NULL, id));
}

static int tracer(char **arg)
{
	if (tracefs_function_filter(NULL, arg[0], NULL, TRACEFS_FL_RESET))
		return fail("function_filter");
	if (tracefs_tracer_set(NULL, TRACEFS_TRACER_FUNCTION))
		return fail("tracer_set");
	printf("%s%s", tracefs_instance_file_read(NULL, "current_tracer", NULL), tracefs_instance_file_read(NULL, "set_ftrace_filter", NULL));
	result("tracer_clear", tracefs_tracer_clear(NULL));
	return result("function_filter", tracefs_function_filter(NULL, NULL, NULL, TRACEFS_FL_RESET));
}

static int notracer(char **arg) { return result("tracer_set", tracefs_tracer_set(NULL, TRACEFS_TRACER_PREEMPTOFF)); }

static int print(char **arg)
{
	if (tracefs_print_init(NULL))
		return fail("print_init");
	int ret = tracefs_printf(NULL, "%s", arg[0]);
	tracefs_print_close(NULL);
	return result("printf", ret);
}

static int binary(char **arg)
{
	struct { int id; char text[8]; } b = { 1, "abcdefg" };
	if (tracefs_binary_init(NULL))
		return fail("binary_init");
	int ret = tracefs_binary_write(NULL, &b, sizeof(b));
	tracefs_binary_close(NULL);
	return result("binary_write", ret);
}

static int pipe_print(char **arg)
{
	return result("trace_pipe_print", tracefs_trace_pipe_print(NULL, SPLICE_F_NONBLOCK) < 0 ? -1 : 0);
}

// hist SYSTEM EVENT KEY START: a histogram of KEY, from its start to its end. The file of
// START is opened in between.
static int hist(char **arg)
{
	struct tep_handle *tep;
	if (!find(&tep, arg))
		return fail("find_event");
	struct tracefs_hist *h = tracefs_hist_alloc(tep, arg[0], arg[1], arg[2], TRACEFS_HIST_KEY_NORMAL);
	if (!h)
		return fail("hist_alloc");
	tracefs_hist_sort_key_direction(h, arg[2], TRACEFS_HIST_SORT_DESCENDING);
	tracefs_hist_append_filter(h, TRACEFS_FILTER_COMPARE, "n", TRACEFS_COMPARE_EQ, arg[3]);
	struct trace_seq seq;
	trace_seq_init(&seq);
	tracefs_hist_echo_cmd(&seq, NULL, h, TRACEFS_HIST_CMD_START);
	trace_seq_do_printf(&seq);
	if (tracefs_hist_start(NULL, h))
		return fail("hist_start");
	char buf[64];
	int fd = open("/dev/zero", O_RDONLY);
	for (int i = 0; i < 3; i++)
		if (read(fd, buf, atoi(arg[3])) < 0)
			return fail("read");
	result("hist_pause", tracefs_hist_pause(NULL, h));
	if (read(fd, buf, atoi(arg[3])) < 0)
		return fail("read");
	printf("%s", tracefs_event_file_read(NULL, arg[0], arg[1], "hist", NULL));
	result("hist_reset", tracefs_hist_reset(NULL, h));
	return result("hist_destroy", tracefs_hist_destroy(NULL, h));
}

// sql NAME QUERY: the synthetic event that a query makes, made and removed.
static int sql(char **arg)
{
	struct tep_handle *tep = tracefs_local_events(NULL);
	char *err = NULL;
	struct tracefs_synth *synth = tracefs_sql(tep, arg[0], arg[1], &err);
	if (!synth) {
		printf("%s\n", err ? err : "no reason");
		return 1;
	}
	struct trace_seq seq;
	trace_seq_init(&seq);
	tracefs_synth_echo_cmd(&seq, synth);
	trace_seq_do_printf(&seq);
	if (tracefs_synth_create(synth))
		return fail("synth_create");
	printf("%s", tracefs_instance_file_read(NULL, "synthetic_events", NULL));
	return result("synth_destroy", tracefs_synth_destroy(synth));
}

static int synth(char **arg)
{
	struct tep_handle *tep = tracefs_local_events(NULL);
	struct tracefs_synth *s = tracefs_synth_alloc(tep, "wakeup", "sched", "sched_waking", "sched", "sched_switch", "pid", "next_pid", "pid");
	if (!s)
		return fail("synth_alloc");
	if (tracefs_synth_add_start_field(s, "prio", "prio") ||
	    tracefs_synth_add_compare_field(s, TRACEFS_TIMESTAMP_USECS, TRACEFS_TIMESTAMP_USECS, TRACEFS_SYNTH_DELTA_END, "delta") ||
	    tracefs_synth_append_end_filter(s, TRACEFS_FILTER_COMPARE, "next_prio", TRACEFS_COMPARE_LT, "100"))
		return fail("synth_add");
	if (tracefs_synth_create(s))
		return fail("synth_create");
	printf("%s", tracefs_event_file_read(NULL, "sched", "sched_switch", "trigger", NULL));
	return result("synth_destroy", tracefs_synth_destroy(s));
}

static int errors(char **arg)
{
	char *all = tracefs_error_all(NULL);
	printf("%s", all ? all : "none\n");
	free(all);
	return result("error_clear", tracefs_error_clear(NULL));
}

static const struct { const char *name; int (*run)(char **); int args; } commands[] = {
	{ "dir", dir }, { "systems", systems }, { "events", events, 1 }, { "tracers", tracers },
	{ "functions", functions, 1 }, { "kprobe", kprobe, 4 }, { "kretprobe", kretprobe, 4 },
	{ "kret", kret, 4 }, { "eprobe", eprobe, 5 }, { "uprobe", uprobe, 4 }, { "dynevents", dynevents },
	{ "destroy", destroy, 2 }, { "destroy_all", destroy_all }, { "enable", enable, 2 },
	{ "disable", disable, 2 }, { "format", format, 2 }, { "filter", filter, 4 },
	{ "unfilter", unfilter, 2 }, { "records", records, 1 }, { "follow", follow, 2 }, { "raw", raw, 1 },
	{ "instance", instance, 1 }, { "options", options, 1 }, { "tracer", tracer, 1 },
	{ "notracer", notracer }, { "print", print, 1 }, { "binary", binary }, { "pipe", pipe_print },
	{ "hist", hist, 4 }, { "sql", sql, 2 }, { "synth", synth }, { "errors", errors },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned i = 0; argc > 1 && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name) && argc - 2 >= commands[i].args)
			return commands[i].run(argv + 2);
	fprintf(stderr, "tracefs: no such command\n");
	return 2;
}
