//! The position of a scrubber, kept in a file across restarts.

use std::fs;
use std::io;
use std::path::Path;

use lucarne_ct::LogId;
use tokio::task::spawn_blocking;

/// The position in a pass, and the end of the last complete pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// The data tile at which the scrubber continues.
    pub(super) tile: u64,
    /// The time when the last complete pass ended, in Unix milliseconds; `None` if no pass has
    /// ended yet.
    pub(super) ended_ms: Option<u64>,
}

/// Reads the position, or returns the start if the file is unreadable or belongs to another log.
pub(super) async fn read(path: &Path, owner: LogId) -> Position {
    let file = path.to_owned();
    let text = spawn_blocking(move || fs::read_to_string(file)).await;
    match text {
        Ok(Ok(text)) => parse(&text, owner).unwrap_or_default(),
        _ => Position::default(),
    }
}

/// Saves the position. If the position is lost, a pass starts again. So the file is not synced, and
/// an error is only logged.
pub(super) async fn write(path: &Path, owner: LogId, position: Position) {
    let file = path.to_owned();
    let written = spawn_blocking(move || replace(&file, &text(owner, position))).await;
    let problem = match written {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::warn!(path = %path.display(), problem, "cannot save the position of the scrubber: \
                                                     after a restart, it continues from an older \
                                                     position");
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(new, path)
}

fn text(owner: LogId, position: Position) -> String {
    let ended = position.ended_ms.map_or(String::new(), |ms| ms.to_string());
    format!(
        "log {}\ntile {}\nended {ended}\n",
        hex::encode(owner.0),
        position.tile
    )
}

fn parse(text: &str, owner: LogId) -> Option<Position> {
    let mut lines = text.lines();
    let mut value = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
    if value("log")? != hex::encode(owner.0) {
        return None;
    }
    Some(Position {
        tile: value("tile")?.parse().ok()?,
        ended_ms: value("ended")?.parse().ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_position_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("scrub");
        let owner = LogId([7; 32]);
        assert_eq!(read(&path, owner).await, Position::default());
        for ended_ms in [None, Some(1_700_000_000_000)] {
            let position = Position { tile: 81, ended_ms };
            write(&path, owner, position).await;
            assert_eq!(read(&path, owner).await, position);
        }
        assert_eq!(read(&path, LogId([8; 32])).await, Position::default());
        fs::write(&path, "log \n\u{0}").unwrap();
        assert_eq!(read(&path, owner).await, Position::default());
    }
}
