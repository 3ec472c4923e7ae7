//! The share that connections get of the files that the process may have open.
//!
//! A connection is a file, and so is what a round writes, the lock, the dedup
//! index, a store's connection. However many clients come, enough is left for
//! the logs: one that cannot open a file stops.

use anyhow::{Result, ensure};

/// Files of the process: what it listens on and logs to, the lock, secrets and
/// roots that are read again, one for each thread that blocks in one, and the
/// connections that are told that there are too many.
const PROCESS: u64 = 256;

/// Files of one log: its directory, journal and dedup index, and the connections
/// to its store.
const LOG: u64 = 64;

/// Fewer connections than this are no server.
const FEWEST: u64 = 32;

/// The most connections that `logs` leave of `files`. A quarter of all files may
/// be tiles that are being sent, or a store's connections on behalf of readers.
///
/// # Errors
/// If they leave next to none.
pub(crate) fn connections(files: u64, logs: u64) -> Result<u64> {
    let kept = files / 4 + PROCESS + logs * LOG;
    let left = files.saturating_sub(kept);
    let needed = (PROCESS + logs * LOG + FEWEST) * 4 / 3 + 1;
    ensure!(
        left >= FEWEST,
        "this process may have {files} files open, and {logs} logs with their clients need at \
         least {needed}: raise the limit (`LimitNOFILE=` in the unit, `ulimit -n` in a shell)"
    );
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_is_left_for_the_logs() {
        assert_eq!(connections(65_536, 1).unwrap(), 48_832);
        assert_eq!(connections(1024, 2).unwrap(), 384);
        let error = connections(256, 1).unwrap_err().to_string();
        let needed: u64 = error
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .nth(2)
            .unwrap();
        assert!(connections(needed, 1).is_ok() && connections(needed - 2, 1).is_err());
    }
}
