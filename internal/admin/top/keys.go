package top

// screen holds the user's choices.
type screen struct {
	view      int
	order     [6]order // per view; view.sortBy initially
	offset    int      // number of rows above the visible part of the view
	filter    string
	isTyping  bool   // whether the filter is being typed
	typed     string // text typed so far
	isPaused  bool
	showsHelp bool
}

// order is how a table is sorted.
type order struct {
	by         int
	isReversed bool
}

// Key is a pressed key: a character, or one of the names below.
type Key string

// Keys that are not characters.
const (
	KeyUp, KeyDown, KeyLeft, KeyRight = Key("up"), Key("down"), Key("left"), Key("right")
	KeyPageUp, KeyPageDown            = Key("page up"), Key("page down")
	KeyHome, KeyEnter, KeyEscape      = Key("home"), Key("enter"), Key("escape")
	KeyTab, KeyBackTab, KeyBackspace  = Key("tab"), Key("back tab"), Key("backspace")
	KeyInterrupt                      = Key("interrupt")
)

// maxFilter limits the length of the filter, in characters.
const maxFilter = 64

// page is the number of rows that a page key scrolls.
const page = 10

// Press handles a key and reports whether it quits the program.
func (m *Model) Press(k Key) (quits bool) {
	switch {
	case k == KeyInterrupt:
		return true
	case m.isTyping:
		m.typeFilter(k)
		return false
	case m.showsHelp:
		m.showsHelp = false
		return false
	}
	switch k {
	case "q":
		return true
	case "?", "h":
		m.showsHelp = true
	case "1", "2", "3", "4", "5", "6":
		m.show(int(k[0] - '1'))
	case KeyTab:
		m.show(m.view + 1)
	case KeyBackTab:
		m.show(m.view - 1)
	case "s", KeyRight:
		m.sortBy(1)
	case "S", KeyLeft:
		m.sortBy(-1)
	case "r":
		m.order[m.view].isReversed = !m.order[m.view].isReversed
	case "/":
		m.isTyping, m.typed = true, m.filter
	case KeyEscape:
		m.setFilter("")
	case "p", " ":
		m.isPaused = !m.isPaused
	case "c":
		m.clear()
	case KeyUp, "k":
		m.scroll(-1)
	case KeyDown, "j":
		m.scroll(1)
	case KeyPageUp:
		m.scroll(-page)
	case KeyPageDown:
		m.scroll(page)
	case KeyHome:
		m.offset = 0
	}
	return false
}

func (m *Model) show(v int) {
	m.view, m.offset = (v+len(views))%len(views), 0
}

func (m *Model) sortBy(step int) {
	n := len(views[m.view].columns)
	m.order[m.view] = order{by: (m.order[m.view].by + step + n) % n}
	m.offset = 0
}

// scroll moves the rows. Frame limits the offset.
func (m *Model) scroll(rows int) { m.offset = max(0, m.offset+rows) }

func (m *Model) typeFilter(k Key) {
	switch runes := []rune(m.typed); {
	case k == KeyEnter:
		m.isTyping = false
		m.setFilter(m.typed)
	case k == KeyEscape:
		m.isTyping = false
	case k == KeyBackspace && len(runes) > 0:
		m.typed = string(runes[:len(runes)-1])
	case len([]rune(string(k))) == 1 && len(runes) < maxFilter:
		m.typed += string(k)
	}
}

// setFilter resets all counts, because they are for the old filter.
func (m *Model) setFilter(filter string) {
	if filter == m.filter {
		return
	}
	m.filter, m.offset = filter, 0
	m.clear()
}
