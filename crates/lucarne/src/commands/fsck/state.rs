//! State file of a check. The next check continues at the position in this file.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use lucarne_log::FsckPosition;
use lucarne_net::counted;
use serde_json::{Value, json};

use crate::commands::atomic;

/// Checked tree and position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Signed note of the tree, byte for byte. A continued check stays with this tree, because two
    /// halves of different trees prove nothing.
    pub(crate) note: Bytes,
    pub(crate) next: FsckPosition,
    /// Number of problems so far, and number of unreadable files.
    pub(crate) wrong: u64,
    pub(crate) unread: u64,
}

impl State {
    /// Creates the state of a check at the start of the tree.
    pub(crate) fn begin(note: Bytes) -> Self {
        State {
            note,
            next: FsckPosition::default(),
            wrong: 0,
            unread: 0,
        }
    }

    /// Reads the state of an earlier check; `None` if the file does not exist.
    ///
    /// # Errors
    /// If the file is not a state file.
    pub(crate) fn read(path: &Path) -> Result<Option<State>> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => bail!("cannot read {}: {error}", path.display()),
        };
        let state = serde_json::from_slice(&text)
            .ok()
            .and_then(|json| parse(&json));
        let state = state.with_context(|| {
            format!(
                "{} is not the state of a check: remove the file to start again",
                path.display()
            )
        })?;
        Ok(Some(state))
    }

    /// Writes the state, replacing the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let note = std::str::from_utf8(&self.note).unwrap_or_default();
        let json = json!({
            "checkpoint": note,
            "tile": self.next.tile,
            "newest_ms": self.next.newest_ms,
            "wrong": self.wrong,
            "unread": self.unread,
        });
        let written = atomic::write(path, &format!("{json}\n"));
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes the state file of a finished check.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub(super) fn remove(path: &Path) -> Result<()> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                bail!("cannot remove {}: {error}", path.display())
            }
            _ => Ok(()),
        }
    }
}

fn parse(json: &Value) -> Option<State> {
    let number = |name: &str| json.get(name)?.as_u64();
    Some(State {
        note: json.get("checkpoint")?.as_str()?.to_owned().into(),
        next: FsckPosition {
            tile: number("tile")?,
            newest_ms: number("newest_ms")?,
        },
        wrong: number("wrong")?,
        unread: number("unread")?,
    })
}

/// Refuses a state whose tree is not a prefix of the current log.
///
/// # Errors
/// If the log was larger then, or had another root at the same size.
pub(super) fn grown(then: &lucarne_tlog::Checkpoint, now: &lucarne_tlog::Checkpoint) -> Result<()> {
    ensure!(
        then.size <= now.size && (then.size < now.size || then.root == now.root),
        "the log does not match the state of the check: the log had {} (root {}), and has {} \
         now (root {}), both signed by its key. Keep both: they are evidence of a fork or a \
         rollback",
        counted(then.size, "entry"),
        then.root,
        now.size,
        now.root
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        assert_eq!(State::read(&path).unwrap(), None);
        let mut state = State::begin(Bytes::from_static(b"log\n5\n\xE2\x80\x94 log x\n"));
        state.next.tile = 7;
        state.wrong = 2;
        state.write(&path).unwrap();
        assert_eq!(State::read(&path).unwrap(), Some(state));
        State::remove(&path).unwrap();
        State::remove(&path).unwrap();
        std::fs::write(&path, "{}").unwrap();
        assert!(State::read(&path).is_err());
    }
}
