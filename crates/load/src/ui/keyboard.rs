//! Key presses of a terminal.
//!
//! crossterm's reader of events never returns after the terminal was closed: each read then returns
//! zero bytes at once. Here, a read of zero bytes ends the reader.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// A key press that a live view can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A printable ASCII character.
    Char(char),
    /// A lower-case letter with Ctrl.
    Control(char),
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Tab.
    Tab,
    /// Shift-Tab.
    BackTab,
    /// Escape.
    Esc,
}

/// Key presses, read by a thread until the terminal is closed or the process ends.
#[derive(Debug)]
pub struct Keyboard(Receiver<Key>);

impl Keyboard {
    /// Starts to read standard input if it is a terminal, otherwise the terminal of the process.
    ///
    /// # Errors
    /// If the process has no terminal, or the system cannot create a thread.
    pub fn open() -> io::Result<Self> {
        if io::stdin().is_terminal() {
            Self::read(io::stdin())
        } else {
            Self::read(File::open("/dev/tty")?)
        }
    }

    pub(super) fn read(terminal: impl Read + Send + 'static) -> io::Result<Self> {
        let (pressed, keys) = channel();
        let reader = thread::Builder::new().name("lucarne-keys".to_owned());
        reader.spawn(move || forward(terminal, &pressed))?;
        Ok(Keyboard(keys))
    }

    /// Waits up to `time` for a key press.
    ///
    /// # Errors
    /// If the terminal was closed.
    pub fn next(&self, time: Duration) -> io::Result<Option<Key>> {
        match self.0.recv_timeout(time) {
            Ok(key) => Ok(Some(key)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the terminal was closed",
            )),
        }
    }
}

fn forward(mut terminal: impl Read, pressed: &Sender<Key>) {
    let mut buffer = [0; 256];
    loop {
        match terminal.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                for key in keys(&buffer[..length]) {
                    // The live view has ended.
                    if pressed.send(key).is_err() {
                        return;
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Returns the keys of bytes that a terminal has sent together. An escape sequence begins with the
/// byte of the key Esc, which stands alone.
fn keys(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some((&first, rest)) = bytes.split_first() {
        bytes = rest;
        let key = match first {
            0x1b => match rest {
                [b'[' | b'O', rest @ ..] => {
                    let end = rest.iter().position(|byte| (0x40..0x7f).contains(byte));
                    let last = end.map(|end| rest[end]);
                    bytes = end.map_or(&[], |end| &rest[end + 1..]);
                    match last {
                        Some(b'A') => Some(Key::Up),
                        Some(b'B') => Some(Key::Down),
                        Some(b'Z') => Some(Key::BackTab),
                        _ => None,
                    }
                }
                _ => Some(Key::Esc),
            },
            b'\t' => Some(Key::Tab),
            // Backspace, which some terminals send as Ctrl-H.
            0x7f => Some(Key::Control('h')),
            1..=26 => Some(Key::Control(char::from(first - 1 + b'a'))),
            b' '..=b'~' => Some(Key::Char(char::from(first))),
            _ => None,
        };
        keys.extend(key);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough for a thread on a busy machine.
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn bytes_of_a_terminal_are_keys() {
        use Key::{BackTab, Char, Control, Down, Esc, Tab, Up};
        for (bytes, expected) in [
            (&b"+w"[..], &[Char('+'), Char('w')][..]),
            (b"\x03\x04\x7f", &[Control('c'), Control('d'), Control('h')]),
            (b"\x1b[A\x1bOB\x1b[Z\t", &[Up, Down, BackTab, Tab]),
            (b"\x1b", &[Esc]),
            (b"\x1bq", &[Esc, Char('q')]),
            // Arrow with Ctrl, F5, and a report of the mouse.
            (b"\x1b[1;5Aq", &[Up, Char('q')]),
            (b"\x1b[15~q", &[Char('q')]),
            (b"\x1b[<0;1;1Mq", &[Char('q')]),
            (b"\x1b[", &[]),
            ("\u{e9}q".as_bytes(), &[Char('q')]),
        ] {
            assert_eq!(keys(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn keys_come_until_the_terminal_is_closed() {
        let keyboard = Keyboard::read(&b"q+"[..]).unwrap();
        assert_eq!(keyboard.next(LONG).unwrap(), Some(Key::Char('q')));
        assert_eq!(keyboard.next(LONG).unwrap(), Some(Key::Char('+')));
        let closed = keyboard.next(LONG).unwrap_err();
        assert_eq!(closed.to_string(), "the terminal was closed");
    }

    #[test]
    fn without_a_key_the_view_goes_on() {
        let (reader, _writer) = io::pipe().unwrap();
        let keyboard = Keyboard::read(reader).unwrap();
        assert_eq!(keyboard.next(Duration::ZERO).unwrap(), None);
    }
}
