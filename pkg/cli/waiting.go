package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// ProgressDelay is how long a command waits before it prints what it waits for, and progressInterval how often it
// checks whether there is something new to print.
const (
	ProgressDelay    = time.Second
	progressInterval = 2 * time.Second
)

// Waiting reports on w what a command waits for, once it has waited for [ProgressDelay], and then only
// if that is another text than before. An empty text says nothing. What it returns ends that, and may be
// called more than once.
func Waiting(w io.Writer, what func() string) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		said := ""
		for after := ProgressDelay; ; after = progressInterval {
			select {
			case <-quit:
				return
			case <-time.After(after):
			}
			if text := what(); text != "" && text != said {
				fmt.Fprintf(w, "note: %s\n", Plain(text))
				said = text
			}
		}
	}()
	var once sync.Once
	return func() {
		once.Do(func() { close(quit) })
		<-ended
	}
}
