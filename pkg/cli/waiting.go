package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// NoticeDelay is how long a person waits before a notice, and noticeInterval how often is checked whether there is
// something new to say.
const (
	NoticeDelay    = time.Second
	noticeInterval = 2 * time.Second
)

// Waiting reports on w what a command waits for, once it has waited for [NoticeDelay], and then only
// if that is another text than before. An empty text says nothing. What it returns ends that, and may be
// called more than once.
func Waiting(w io.Writer, what func() string) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		said := ""
		for after := NoticeDelay; ; after = noticeInterval {
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
