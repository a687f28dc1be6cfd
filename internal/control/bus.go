package control

import "strings"

// text says which names we own and what was set by them.
func (b *Bus) text() string {
	if b.Error != "" {
		return "NOT connected: " + b.Error + b.set()
	}
	var words []string
	for _, name := range b.Names {
		word := name.Name
		if !name.Owned {
			word += " NOT owned (" + name.Why + ")"
		}
		words = append(words, word)
	}
	return orNone(strings.Join(words, "   ")) + b.set()
}

// set is in further lines.
func (b *Bus) set() string {
	text := ""
	if len(b.Servers) > 0 {
		text += "\nservers " + strings.Join(b.Servers, " ") + from(b.ServersBy)
	}
	if len(b.Options) > 0 {
		text += "\n" + strings.Join(b.Options, ", ") + from(b.OptionsBy)
	}
	return text
}
