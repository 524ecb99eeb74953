package engine

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
)

func TestMistakesAboutInventoriesAreNamed(t *testing.T) {
	s3 := map[string]string{
		"inventory.data_backend": "s3", "inventory.s3_endpoint": "https://s3.example", "inventory.s3_bucket": "inventories",
		"inventory.s3_access_key": "hunter2-access", "inventory.s3_secret_key": "hunter2-secret",
	}
	for name, test := range map[string]struct {
		set  map[string]string // over s3; without "inventory."
		want string            // part of the error; empty means that it is fine
	}{
		"keys":                       {nil, ""},
		"endpoint with a port":       {map[string]string{"s3_endpoint": "https://s3.example:9000/"}, ""},
		"none":                       {map[string]string{"data_backend": "none"}, ""},
		"database beside objects":    {map[string]string{"data_backend": "database"}, ""},
		"http on loopback":           {map[string]string{"s3_endpoint": "http://127.0.0.1:9000"}, ""},
		"http by switch":             {map[string]string{"s3_endpoint": "http://s3.example", "s3_allow_plain_http": "true"}, ""},
		"http over a network":        {map[string]string{"s3_endpoint": "http://s3.example"}, "inventory.s3_endpoint: s3.example is not a loopback address, and without TLS"},
		"file":                       {map[string]string{"s3_access_key": "", "s3_secret_key": "", "s3_credentials_file": "keys"}, ""},
		"file and keys":              {map[string]string{"s3_credentials_file": "keys"}, "want either inventory.s3_access_key"},
		"neither file nor keys":      {map[string]string{"s3_access_key": "", "s3_secret_key": ""}, "want either inventory.s3_access_key"},
		"half of the keys":           {map[string]string{"s3_secret_key": ""}, "want both or none"},
		"unknown backend":            {map[string]string{"data_backend": "swift"}, `inventory.data_backend: want database, s3 or none, got "swift"`},
		"no endpoint":                {map[string]string{"s3_endpoint": ""}, "inventory.s3_endpoint: is required"},
		"bucket without an endpoint": {map[string]string{"data_backend": "database", "s3_endpoint": ""}, "inventory.s3_endpoint: without it"},
		"no bucket":                  {map[string]string{"s3_bucket": ""}, "inventory.s3_bucket: is required"},
		"host alone":                 {map[string]string{"s3_endpoint": "s3.example"}, "want https://host"},
		"another protocol":           {map[string]string{"s3_endpoint": "ftp://s3.example"}, "want https://host"},
		"bucket in the endpoint":     {map[string]string{"s3_endpoint": "https://s3.example/inventories"}, "inventory.s3_bucket"},
		"password in the endpoint":   {map[string]string{"s3_endpoint": "https://hunter2:hunter2@s3.example"}, "credentials are inventory.s3_access_key"},
		"endpoint that is no URL":    {map[string]string{"s3_endpoint": "https://hunter2:hunter2@[s3"}, "want https://host"},
		"prefix of a root":           {map[string]string{"s3_prefix": "/a"}, "inventory.s3_prefix"},
		"unknown lookup":             {map[string]string{"s3_bucket_lookup": "host"}, "inventory.s3_bucket_lookup: want auto, dns or path"},
		"no timeout":                 {map[string]string{"s3_timeout": "0s"}, "inventory.s3_timeout"},
		"timeout over that of work":  {map[string]string{"s3_timeout": "21s"}, "at most 20s"},
		"no patience":                {map[string]string{"s3_patience": "0s"}, "inventory.s3_patience"},
	} {
		t.Run(name, func(t *testing.T) {
			set := maps.Clone(s3)
			for key, value := range test.set {
				set["inventory."+key] = value
			}
			_, err := LoadConfig(Sources{Set: set})
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got %v, want none", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want an error with %q", err, test.want)
			case err != nil && strings.Contains(err.Error(), "hunter2"):
				t.Errorf("error %q has a secret", err)
			}
		})
	}
}

func TestSecretsOfTheConfigurationAreNotPrinted(t *testing.T) {
	cfg, err := LoadConfig(Sources{Environ: []string{
		"INGOT_INVENTORY__S3_ENDPOINT=https://s3.example", "INGOT_INVENTORY__S3_BUCKET=b",
		"INGOT_INVENTORY__S3_ACCESS_KEY=hunter2-access", "INGOT_INVENTORY__S3_SECRET_KEY=hunter2-secret",
	}})
	if err != nil || cfg.Inventory.S3SecretKey != "hunter2-secret" || cfg.Inventory.S3AccessKey != "hunter2-access" {
		t.Fatalf("keys were not read: %v", err)
	}
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("Configuration", "cfg", cfg, "key", cfg.Inventory.S3SecretKey)
	slog.New(slog.NewTextHandler(&logged, nil)).Info("Configuration", "cfg", cfg, "key", cfg.Inventory.S3SecretKey)
	encoded, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(cfg), fmt.Sprintf("%v %+v %#v %s %q", cfg, cfg, cfg, cfg.Inventory.S3SecretKey, cfg.Inventory.S3SecretKey), logged.String(), string(encoded)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("%.200s has a secret", text)
		}
	}
}
