//! Live view: hosts with their numbers of requests and the cost of their certificates, or the last
//! requests.

mod view;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lucarne_load::ui::{Key, Keyboard, on_terminal};
use lucarne_proxy::Proxy;
use ratatui::DefaultTerminal;
use tokio::sync::Notify;

use self::view::{Picture, Selection, draw};
use crate::output::colours;

/// Whether this build has a live view.
pub(super) const BUILT: bool = true;

/// Interval at which keys are read.
const ATTENTION: Duration = Duration::from_millis(100);
/// Interval at which the view is drawn.
const REFRESH: Duration = Duration::from_millis(500);

/// Terminal view, drawn by a separate thread until the value is dropped.
pub(super) struct Screen {
    over: Arc<AtomicBool>,
    quit: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Screen {
    /// Starts to draw on the terminal.
    pub(super) fn start(proxy: Proxy, addresses: &[SocketAddr], admin: Option<SocketAddr>) -> Self {
        let over = Arc::<AtomicBool>::default();
        let quit = Arc::<Notify>::default();
        let title = title(addresses, admin);
        let thread = {
            let (over, quit) = (over.clone(), quit.clone());
            std::thread::spawn(move || {
                let shown = on_terminal(|terminal, keyboard| {
                    show(&proxy, &title, (&over, &quit), terminal, keyboard)
                });
                if let Err(error) = shown {
                    errln!("lucarne: cannot draw the live view: {error}");
                }
            })
        };
        Screen {
            over,
            quit,
            thread: Some(thread),
        }
    }
}

/// Returns a future that completes when a user presses the key to stop. Without a screen, the
/// future never completes.
pub(super) fn quit(screen: &Option<Screen>) -> impl Future<Output = ()> + use<> {
    let quit = screen.as_ref().map(|screen| screen.quit.clone());
    async move {
        match quit {
            Some(quit) => quit.notified().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has already restored the terminal.
            let _ = thread.join();
        }
    }
}

fn title(addresses: &[SocketAddr], admin: Option<SocketAddr>) -> String {
    let proxies: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let admin = admin.map_or(String::new(), |address| {
        format!("   page http://{address}/")
    });
    format!("{}{admin}", proxies.join(", "))
}

fn show(
    proxy: &Proxy,
    title: &str,
    (over, quit): (&AtomicBool, &Notify),
    terminal: &mut DefaultTerminal,
    keyboard: &Keyboard,
) -> io::Result<()> {
    let colour = colours(&io::stdout());
    let mut selection = Selection::default();
    let mut picture = Picture::of(proxy, title, colour, &selection, None);
    while !over.load(Ordering::Relaxed) {
        terminal.draw(|frame| draw(frame, &picture))?;
        let until = Instant::now() + REFRESH;
        while Instant::now() < until && !over.load(Ordering::Relaxed) {
            match keyboard.next(ATTENTION)? {
                Some(key) if selection.takes(key) => break,
                Some(key) if stops(key) => quit.notify_one(),
                _ => {}
            }
        }
        picture = Picture::of(proxy, title, colour, &selection, Some(&picture));
    }
    Ok(())
}

fn stops(key: Key) -> bool {
    matches!(key, Key::Char('q') | Key::Control('c' | 'd') | Key::Esc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_select_and_filter_requests() {
        let mut selection = Selection::default();
        let mut press = |keys: &[Key]| {
            keys.iter()
                .for_each(|key| assert!(selection.takes(*key), "{key:?}"));
            (selection.requests, selection.filter.clone(), selection.from)
        };
        let text = |text: &str| text.chars().map(Key::Char).collect::<Vec<_>>();
        assert_eq!(
            press(&[Key::Tab, Key::Down, Key::Down, Key::Up]),
            (true, String::new(), 1)
        );
        // `q` is a letter of the filter.
        assert_eq!(press(&text("/qx")), (true, "qx".to_owned(), 0));
        assert_eq!(
            press(&[Key::Control('h'), Key::Control('m')]),
            (true, "q".to_owned(), 0)
        );
        assert_eq!(press(&text("r")), (false, "q".to_owned(), 0));
        assert_eq!(press(&[Key::Char('/'), Key::Esc]), (true, String::new(), 0));
        assert!(!selection.takes(Key::Char('q')) && !selection.takes(Key::Esc));
        assert!(!selection.takes(Key::Control('c')));
    }
}
