//! What is shown, and how keys change that.

use crate::rows::Sort;

/// A key that means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// A letter.
    Letter(char),
    /// Up and down.
    Up,
    /// Down.
    Down,
    /// A screen up.
    PageUp,
    /// A screen down.
    PageDown,
    /// To the first line.
    Home,
    /// To the last.
    End,
    /// Done with typing.
    Enter,
    /// Away with it.
    Escape,
    /// The last letter goes.
    Backspace,
    /// Ctrl-C.
    Interrupt,
}

/// What is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// In which order.
    pub sort: Sort,
    /// Which lines.
    pub filter: String,
    /// Whether the filter is being typed.
    pub typing: bool,
    /// The first line.
    pub from: usize,
    /// Whether the keys are explained.
    pub help: bool,
}

impl View {
    /// A key was pressed while so many lines, of which so many fit, were shown. False when it is to end.
    pub fn press(&mut self, key: Key, lines: usize, fit: usize) -> bool {
        let last = lines.saturating_sub(fit);
        match (key, self.typing) {
            (Key::Interrupt, _) | (Key::Letter('q'), false) => return false,
            (Key::Letter(letter), true) => {
                self.filter.push(letter);
                self.from = 0;
            }
            (Key::Backspace, true) => drop(self.filter.pop()),
            (Key::Enter, true) => self.typing = false,
            (Key::Escape, true) => {
                (self.typing, self.from) = (false, 0);
                self.filter.clear();
            }
            (Key::Escape, false) if self.help => self.help = false,
            (Key::Escape, false) => self.filter.clear(),
            (Key::Letter('/'), false) => self.typing = true,
            (Key::Letter('s'), false) => self.sort = self.sort.next(),
            (Key::Letter('?' | 'h'), false) => self.help = !self.help,
            (Key::Up | Key::Letter('k'), _) => self.from = self.from.saturating_sub(1),
            (Key::Down | Key::Letter('j'), _) => self.from = (self.from + 1).min(last),
            (Key::PageUp, _) => self.from = self.from.saturating_sub(fit),
            (Key::PageDown | Key::Letter(' '), _) => self.from = (self.from + fit).min(last),
            (Key::Home, _) => self.from = 0,
            (Key::End, _) => self.from = last,
            _ => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, View};
    use crate::rows::Sort;

    #[test]
    fn keys_do_what_they_say() {
        let mut view = View::default();
        assert!(view.press(Key::Letter('s'), 100, 10));
        assert_eq!(view.sort, Sort::Use);
        for letter in "/mig q".chars() {
            assert!(view.press(Key::Letter(letter), 100, 10), "a letter of a filter ends nothing");
        }
        assert!(view.typing && view.filter == "mig q");
        view.press(Key::Backspace, 100, 10);
        view.press(Key::Enter, 100, 10);
        assert!(!view.typing && view.filter == "mig ");
        view.press(Key::PageDown, 100, 10);
        view.press(Key::End, 100, 10);
        assert_eq!(view.from, 90);
        view.press(Key::Down, 100, 10);
        assert_eq!(view.from, 90, "nothing is below the last line");
        view.press(Key::Escape, 100, 10);
        assert!(view.filter.is_empty());
        assert!(!view.press(Key::Letter('q'), 100, 10));
        assert!(!View { typing: true, ..View::default() }.press(Key::Interrupt, 1, 1));
    }
}
