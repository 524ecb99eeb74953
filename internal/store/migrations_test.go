package store

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// The statements that a migration may contain. Programs of the previous version keep running during
// and after the migration. They name the columns that they read and write, so new tables and columns
// do not affect them. But a migration must not make rows that they write invalid.
var (
	createTable = regexp.MustCompile(`^CREATE TABLE (\w+) \(.*\)( WITHOUT ROWID)?$`)
	createIndex = regexp.MustCompile(`^CREATE (UNIQUE )?INDEX (\w+) ON (\w+) \(.*\)( WHERE .*)?$`)
	addColumn   = regexp.MustCompile(`^ALTER TABLE \w+ ADD COLUMN \w+ \w+( DEFAULT \S+| NOT NULL DEFAULT \S+)?( REFERENCES .*)?$`)
	addRows     = regexp.MustCompile(`^INSERT INTO \w+ \(.*\) SELECT .*$`)
	dropIndex   = regexp.MustCompile(`^DROP INDEX (\w+)$`)
	comments    = regexp.MustCompile(`--[^\n]*|/\*.*?\*/`)
)

// checkAdditive returns the parts of a migration that would affect programs of the previous version.
// Unique has the names of unique indexes so far; checkAdditive adds to it.
func checkAdditive(text string, unique map[string]bool) error {
	created, dropped := map[string]bool{}, map[string]bool{}
	for statement := range strings.SplitSeq(comments.ReplaceAllString(text, ""), ";") {
		statement = strings.Join(strings.Fields(statement), " ")
		if statement == "" || addColumn.MatchString(statement) || addRows.MatchString(statement) {
			continue
		}
		if table := createTable.FindStringSubmatch(statement); table != nil {
			created[table[1]] = true
			continue
		}
		if index := createIndex.FindStringSubmatch(statement); index != nil {
			if index[1] != "" {
				unique[index[2]] = true
			}
			if index[1] != "" && !created[index[3]] {
				return fmt.Errorf("%s: the program before may write what this refuses", statement)
			}
			delete(dropped, index[2])
			continue
		}
		index := dropIndex.FindStringSubmatch(statement)
		if index == nil {
			return fmt.Errorf("%s: a migration only adds", statement)
		}
		if unique[index[1]] {
			return fmt.Errorf("%s: the program before relies on it to refuse what is taken", statement)
		}
		dropped[index[1]] = true
	}
	for name := range dropped {
		return fmt.Errorf("the index %s is dropped and not created again: the program before would be slow", name)
	}
	return nil
}

func TestMigrationsOnlyAdd(t *testing.T) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil || len(names) < 2 {
		t.Fatalf("migrations = %v, %v", names, err)
	}
	unique := map[string]bool{}
	for _, name := range names {
		text, err := fs.ReadFile(migrationFiles, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkAdditive(string(text), unique); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !unique["nodes_uuid"] {
		t.Errorf("unique indexes = %v, want that of nodes among them", unique)
	}
}

func TestMigrationsThatDoMoreAreFound(t *testing.T) {
	for text, fits := range map[string]bool{
		"ALTER TABLE nodes ADD COLUMN a TEXT":                                       true,
		"ALTER TABLE nodes ADD COLUMN a BIGINT NOT NULL DEFAULT 0":                  true,
		"CREATE TABLE a (id BIGINT NOT NULL);\nCREATE UNIQUE INDEX a_id ON a (id);": true,
		"DROP INDEX nodes_driver; CREATE INDEX nodes_driver ON nodes (driver);":     true,
		"-- DROP TABLE nodes;\nCREATE INDEX a ON nodes (owner /*postgres: , id*/);": true,
		"INSERT INTO a (id) SELECT id FROM nodes":                                   true,
		"ALTER TABLE nodes ADD COLUMN a BIGINT NOT NULL":                            false,
		"ALTER TABLE nodes ADD COLUMN a BIGINT UNIQUE":                              false,
		"ALTER TABLE nodes ADD COLUMN a BIGINT DEFAULT 0 CHECK (a < 5)":             false,
		"ALTER TABLE nodes DROP COLUMN owner":                                       false,
		"ALTER TABLE nodes RENAME COLUMN owner TO keeper":                           false,
		"ALTER TABLE nodes RENAME TO machines":                                      false,
		"DROP TABLE nodes":                                                          false,
		"UPDATE nodes SET owner = null":                                             false,
		"CREATE UNIQUE INDEX a ON nodes (owner)":                                    false,
		"DROP INDEX nodes_driver":                                                   false,
		"DROP INDEX nodes_uuid; CREATE UNIQUE INDEX nodes_uuid ON nodes (uuid)":     false,
		"CREATE TRIGGER a BEFORE INSERT ON nodes BEGIN SELECT 1; END":               false,
		"CREATE INDEX nodes_driver ON nodes (driver); DROP INDEX nodes_driver":      false,
	} {
		if err := checkAdditive(text, map[string]bool{"nodes_uuid": true}); (err == nil) != fits {
			t.Errorf("%s: got %v, want it to fit: %v", text, err, fits)
		}
	}
}
