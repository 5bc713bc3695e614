package gdbstub

import (
	"context"
	"maps"
	"slices"
)

// reverse are the features of a machine that goes back.
func (c *client) reverse() string {
	if c.conf.Past == nil {
		return ""
	}
	return ";ReverseStep+;ReverseContinue+"
}

// historyBegins is the reason of a stop where there is nothing before.
const historyBegins = "replaylog:begin;"

// back answers bs and bc. If there is nothing before, the machine stays where it is, since what has come from outside would
// be undone by going to its begin.
func (c *client) back(p string) (string, error) {
	if c.conf.Past == nil || p != "bs" && p != "bc" {
		return notKnown, nil
	}
	c.putPoints()
	cpu := c.cpu
	if c.stepCPU >= 0 {
		cpu = c.stepCPU
	}
	clear(c.skipped)
	var reply string
	gone, err := c.during(func(ctx context.Context) {
		if p == "bs" {
			reply = c.backStep(ctx, cpu)
		} else {
			reply = c.backStop(ctx, cpu)
		}
	})
	if err != nil || gone {
		return "", errGone
	}
	return reply, nil
}

// backStep returns the stop reply after a step back.
func (c *client) backStep(ctx context.Context, cpu int) string {
	err := c.conf.Past.BackStep(ctx, cpu)
	c.follow()
	switch {
	case ctx.Err() != nil:
		return c.reply(sigINT, "", cpu)
	case err != nil:
		return c.reply(sigTRAP, historyBegins, cpu)
	}
	return c.reply(sigTRAP, "", cpu)
}

// backStop returns the stop reply after the way back to the last stop.
func (c *client) backStop(ctx context.Context, cpu int) string {
	s, err := c.conf.Past.BackStop(ctx, slices.Sorted(maps.Keys(c.breaks)), c.points())
	c.follow()
	switch {
	case ctx.Err() != nil:
		return c.reply(sigINT, "", cpu)
	case err != nil:
		return c.reply(sigTRAP, historyBegins, cpu)
	}
	return c.reply(sigTRAP, c.why(s), s.CPU)
}

// during calls f, whose context ends when the client wants to stop the machine or goes.
func (c *client) during(f func(context.Context)) (gone bool, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	for {
		select {
		case <-done:
			return gone, err
		case e := <-c.events:
			if e.interrupt || e.err != nil {
				cancel()
			}
			if gone = gone || e.err != nil; gone {
				<-done
				return gone, err
			}
		}
	}
}

// follow has the client debug the machine that took the place of its present one when that went back. It returns false if
// none did.
func (c *client) follow() bool {
	if c.conf.Past == nil {
		return false
	}
	d := c.conf.Machine()
	if d == c.d {
		return false
	}
	c.d = d
	c.breaksDirty, c.watchDirty = true, true
	return true
}
