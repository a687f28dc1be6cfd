package control

import "strings"

// text lists the names that we own and what other programs set through them.
func (b *Bus) text() string {
	if b.Error != "" {
		return "NOT connected: " + b.Error + b.set()
	}
	var owned, others []string
	for _, name := range b.Names {
		if name.Owned {
			owned = append(owned, name.Name)
		} else {
			others = append(others, "NOT "+name.Name+": "+name.Why)
		}
	}
	return strings.Join(append([]string{orNone(owned, "   ")}, others...), "\n") + b.set()
}

// set returns additional lines with the settings made over D-Bus.
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
