package auth

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tail is a hash without its head; what it says does not matter to the parser.
var tail = strings.Repeat("a", 53)

func TestHtpasswdLinesAreRead(t *testing.T) {
	content := "# the team\n\nann:$2y$10$" + tail + "\r\nbob:$2b$04$" + tail + "  \n \nKäthe:$2a$15$" + tail
	got, err := htpasswdFile.parse([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"ann": "$2y$10$" + tail, "bob": "$2b$04$" + tail, "Käthe": "$2a$15$" + tail}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
}

func TestBadHtpasswdLineIsNamedAndNotShown(t *testing.T) {
	good := "ann:$2y$10$" + tail + "\n"
	tests := map[string]struct{ content, want string }{
		"no colon":           {good + "hunter2", "line 2: want user:hash"},
		"no user":            {good + ":$2y$10$" + tail, "line 2: want user:hash"},
		"plain text":         {good + "bob:hunter2", "line 2: want a bcrypt hash"},
		"empty hash":         {good + "bob:", "line 2: want a bcrypt hash"},
		"MD5":                {"\n#\nbob:$apr1$hunter2$3nXlMFZkIoLsWHBGK4qYr.", "line 3: want a bcrypt hash"},
		"SHA-1":              {"bob:{SHA}hunter2hunter2hunter2hunter=", "line 1: want a bcrypt hash"},
		"SHA-512":            {"bob:$6$hunter2$" + tail, "line 1: want a bcrypt hash"},
		"2x":                 {"bob:$2x$10$" + tail, "line 1: want a bcrypt hash"},
		"too short":          {"bob:$2y$10$" + tail[1:], "line 1: want a bcrypt hash"},
		"more after it":      {"bob:$2y$10$" + tail + ":hunter2", "line 1: want a bcrypt hash"},
		"cost below bcrypt":  {"bob:$2y$03$" + tail, "line 1: want a bcrypt cost from 4 to 15"},
		"cost of minutes":    {"bob:$2y$20$" + tail, "line 1: want a bcrypt cost from 4 to 15"},
		"user twice":         {good + good, "line 2: the user is on an earlier line"},
		"user not UTF-8":     {"b\xffb:$2y$10$" + tail, "line 1: the user name is not UTF-8"},
		"empty file":         {"", "the file has no user"},
		"nothing but a note": {"# hunter2\n", "the file has no user"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := htpasswdFile.parse([]byte(test.content))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want an error with %q", err, test.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows the line: %v", err)
			}
		})
	}
}

func FuzzHtpasswd(f *testing.F) {
	f.Add([]byte("ann:$2y$10$" + tail + "\n"))
	f.Add([]byte("# note\nbob:{SHA}x\n:\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		users, err := htpasswdFile.parse(content)
		if (err == nil) != (len(users) > 0) {
			t.Fatalf("got %d users and error %v", len(users), err)
		}
		for name, hash := range users {
			if name == "" || !bcryptHash.MatchString(hash) {
				t.Fatalf("accepted user %q with hash %q", name, hash)
			}
		}
	})
}
