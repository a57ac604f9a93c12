package volumestest

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// An API is what the fakes of all clouds do with a call.
type API struct {
	T T
	W *World
	// Header has the value Key in each call, unless it is empty.
	Header, Key string
	// Busy answers a call that is one too many.
	Busy func(w http.ResponseWriter)
}

// Serve has mux answer calls by their patterns. Any other call is an error.
func (a API) Serve(mux *http.ServeMux, calls map[string]http.HandlerFunc) {
	for pattern, call := range calls {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if a.Header != "" && r.Header.Get(a.Header) != a.Key {
				a.T.Errorf("%s %s without its %s", r.Method, r.URL, a.Header)
			}
			w.Header().Set("Content-Type", "application/json")
			if !a.W.Call() {
				a.Busy(w)
				return
			}
			call(w, r)
		})
	}
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) {
		a.T.Errorf("a call that is not expected: %s %s", r.Method, r.URL)
	})
}

// Own is a handler of a question for metadata, which has no answer while the world's is
// unanswered.
func Own(w *World, answer http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if !w.Metadata() {
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		answer(rw, r)
	}
}

// Send answers with JSON.
func Send(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// Refuse answers with a status, and why in the form of the cloud.
func Refuse(w http.ResponseWriter, status int, why any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(why)
}

// Number is an id that is a number in the cloud, 0 for any other.
func Number(id string) int {
	n, _ := strconv.Atoi(id)
	return n
}
