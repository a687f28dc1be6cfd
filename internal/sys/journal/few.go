package journal

import (
	"fmt"
	"strings"
)

// MaxFew is the maximum number of list elements in one log line.
const MaxFew = 6

// Few joins the first MaxFew words and appends the number of the others. With `listen: all` and a
// bridge with one address per pod, a node has hundreds of addresses.
func Few(words []string, separator string) string {
	if len(words) <= MaxFew {
		return strings.Join(words, separator)
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:MaxFew], separator), len(words)-MaxFew)
}
