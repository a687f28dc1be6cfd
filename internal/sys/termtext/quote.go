package termtext

import "strings"

// Quote returns text as one word of a shell command. Every printed command must use it: clients of
// the resolver choose names that contain "&", ";" and "$(".
func Quote(text string) string {
	isPlain := text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_+.:@/", r))
	})
	if isPlain {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
