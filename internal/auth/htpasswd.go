package auth

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// bcryptHash matches a bcrypt hash, the only accepted kind, with any of the three
// prefixes of that algorithm. The first group is the cost.
var bcryptHash = regexp.MustCompile(`^\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{53}$`)

// The least and the largest bcrypt cost. Each step doubles the time of a comparison; cost 15 takes
// some seconds.
const (
	minCost = 4
	maxCost = 15
)

// htpasswdFile has the bcrypt hash of each user.
var htpasswdFile = userFile[string]{form: "user:hash", advice: "add one with htpasswd -B", value: checkHash}

func checkHash(hash string) (string, error) {
	parts := bcryptHash.FindStringSubmatch(hash)
	if parts == nil {
		return "", errors.New("want a bcrypt hash ($2y$, $2b$ or $2a$): make the line with htpasswd -B")
	}
	if cost, err := strconv.Atoi(parts[1]); err != nil || cost < minCost || cost > maxCost {
		return "", fmt.Errorf("want a bcrypt cost from %d to %d", minCost, maxCost)
	}
	return hash, nil
}
