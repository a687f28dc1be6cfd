package cache

// A list holds entries in order of arrival. The zero list is empty.
type list struct {
	newest, oldest *entry
	n              int
}

func (l *list) add(e *entry) {
	l.n++
	e.older = l.newest
	if l.newest != nil {
		l.newest.newer = e
	} else {
		l.oldest = e
	}
	l.newest = e
}

func (l *list) remove(e *entry) {
	l.n--
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		l.oldest = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		l.newest = e.older
	}
	e.older, e.newer = nil, nil
}
