package httpapi

import (
	"fmt"
	"net/http"
)

// listShards answers with the number of nodes in each shard. The name null counts
// nodes without a shard.
func (a *api) listShards(w http.ResponseWriter, r *http.Request) error {
	shards, err := a.engine.Shards(r.Context())
	if err != nil {
		return fmt.Errorf("count shards: %w", err)
	}
	return answer(w, http.StatusOK, func(dst []byte) []byte {
		dst = append(dst, `{"shards":[`...)
		for i, shard := range shards {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendText(append(dst, `{"name":`...), shard.Name)
			dst = fmt.Appendf(dst, `,"count":%d}`, shard.Count)
		}
		return append(dst, "]}"...)
	})
}
