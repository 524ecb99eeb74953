package auth

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/role"
)

func TestRoleFileIsReadAndItsMistakesAreNamed(t *testing.T) {
	got, err := roleFile.parse([]byte("# the team\n\nann: admin\r\nbob:operator  \nKäthe:   reader"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]role.Role{"ann": role.Admin, "bob": role.Operator, "Käthe": role.Reader}, got); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
	for content, want := range map[string]string{
		"":                        "the file has no user: add a line user: role",
		"ann":                     "line 1: want user: role",
		": admin":                 "line 1: want user: role",
		"ann: admin\nbob: root":   "line 2: want one of the roles reader, operator, admin",
		"ann: Admin":              "line 1: want one of the roles reader, operator, admin",
		"ann:":                    "line 1: want one of the roles reader, operator, admin",
		"ann: none":               "line 1: want one of the roles reader, operator, admin",
		"ann: admin\nann: reader": "line 2: the user is on an earlier line",
		"ann: reader, admin":      "line 1: want one of the roles reader, operator, admin",
	} {
		if _, err := roleFile.parse([]byte(content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", content, err, want)
		}
	}
}

// roleOf asks the guard as a user and returns the status and the role that the handler
// behind it sees.
func roleOf(g *gate, user, password string) (int, string) {
	handler := g.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, Role(r.Context())) }))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth(user, password)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestWithoutARoleFileEveryUserIsAnAdministrator(t *testing.T) {
	if status, got := roleOf(newGate(t), "ann", "secret"); status != http.StatusOK || got != "admin" {
		t.Errorf("got %d %s", status, got)
	}
}

func TestChangedRoleFileCountsAndASpoiledOneDoesNot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "roles")
	write(t, file, "ann: operator\n")
	var log bytes.Buffer
	g := newGate(t, func(o *Options) { o.RoleFile, o.Logger = file, slog.New(slog.NewTextHandler(&log, nil)) })
	for _, step := range []struct{ content, ann, bob string }{
		{"", "operator", "api.role_file"},
		{"ann: reader\nbob: admin\n", "reader", "admin"},
		{"ann: admin\nbob: root\n", "reader", "admin"}, // not valid
		{"bob: admin\n", "api.role_file", "admin"},
	} {
		if step.content != "" {
			write(t, file, step.content)
			g.skipped.Add(int64(time.Minute))
		}
		for user, want := range map[string]string{"ann": step.ann, "bob": step.bob} {
			status, got := roleOf(g, user, map[string]string{"ann": "secret", "bob": "other"}[user])
			refused := want == "api.role_file"
			if refused != (status == http.StatusForbidden) || !strings.Contains(got, want) {
				t.Errorf("%q: %s gets %d %s, want %s", step.content, user, status, got, want)
			}
		}
	}
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "line 2: want one of the roles") {
		t.Errorf("the log does not say what is wrong with the file: %s", log.String())
	}
}

func TestMissingRoleFileIsAnError(t *testing.T) {
	g := newGate(t)
	file := filepath.Join(t.TempDir(), "none")
	if _, err := New(g.file, Options{RoleFile: file, Logger: slog.Default(), Now: time.Now}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("got %v, want an error that names %s", err, file)
	}
}
