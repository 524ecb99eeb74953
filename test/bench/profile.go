package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"

	"github.com/google/pprof/profile"
)

// profiler collects CPU profiles of engines while they are measured. It misses the last second of
// an engine that is killed.
type profiler struct {
	running sync.WaitGroup
	mu      sync.Mutex
	samples []*profile.Profile
}

// args makes an engine serve profiles at an address.
func (p *profiler) args(address string) []string {
	return []string{"--set", "api.metrics_listen=" + address, "--set", "api.profiles=true"}
}

// watch reads the profiles of an engine, one per second, until the engine or ctx has ended.
func (p *profiler) watch(ctx context.Context, address string) {
	p.running.Go(func() {
		for {
			sample, err := readProfile(ctx, address)
			if err != nil { // the engine has been killed
				return
			}
			p.mu.Lock()
			p.samples = append(p.samples, sample)
			p.mu.Unlock()
		}
	})
}

func readProfile(ctx context.Context, address string) (*profile.Profile, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/debug/pprof/profile?seconds=1", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	return profile.Parse(answer.Body)
}

// write merges all profiles into one and stores it, after the last engine has ended.
func (p *profiler) write(file string) error {
	p.running.Wait()
	merged, err := profile.Merge(p.samples)
	if err != nil {
		return fmt.Errorf("merge %d profiles: %w", len(p.samples), err)
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("create profile: %w", err)
	}
	defer out.Close()
	if err := merged.Write(out); err != nil {
		return fmt.Errorf("write profile: %w", err)
	}
	return out.Close()
}
