package journal

import (
	"fmt"
	"strings"
)

// MaxFew is how many elements of a list one line names.
const MaxFew = 6

// Few joins the first MaxFew words, and says how many more there are. A node has hundreds of addresses where `listen: all`
// meets a bridge with one address for each pod.
func Few(words []string, separator string) string {
	if len(words) <= MaxFew {
		return strings.Join(words, separator)
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:MaxFew], separator), len(words)-MaxFew)
}
