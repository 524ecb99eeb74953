package node

import (
	"slices"
	"testing"
)

func TestWordsAreASortedSet(t *testing.T) {
	w := WordsOf("b", "", "a", "b")
	if got := w.List(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("list: got %q", got)
	}
	if w.With("a") != w || w.With("c").Without("b") != WordsOf("a", "c") || WordsOf("a").Without("a") != "" {
		t.Errorf("with and without: got %q, %q", w.With("a"), w.With("c").Without("b"))
	}
	if !w.Has("b") || w.Has("") || WordsOf().Has("") || w.Has("ab") || w.Has("a,b") {
		t.Error("Has finds what is not there, or misses what is")
	}
}

func TestWordsContainOthers(t *testing.T) {
	for _, tt := range []struct {
		all, part Words
		want      bool
	}{
		{WordsOf("a", "b"), WordsOf("b"), true},
		{WordsOf("a"), WordsOf(), true},
		{WordsOf(), WordsOf("a"), false},
		{WordsOf("a"), WordsOf("a", "b"), false},
	} {
		if got := tt.all.HasAll(tt.part); got != tt.want {
			t.Errorf("%q holds %q: got %v", tt.all, tt.part, got)
		}
	}
}
