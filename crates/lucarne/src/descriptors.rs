//! Share of the process's file descriptors that connections may use.
//!
//! Connections need descriptors, as do files of rounds, the lock, the dedup index and connections
//! to stores. The limit reserves enough for the logs at any number of clients, because a log that
//! cannot open a file stops.

use anyhow::{Result, ensure};

/// Descriptors of the process: listeners, log output, the lock, reread secrets and roots, one for
/// each blocking thread, and connections that are refused because of the limit.
const PROCESS: u64 = 256;

/// Descriptors of one log: its directory, journal and dedup index, and connections to its store.
const LOG: u64 = 64;

/// Minimum number of connections of a useful server.
const FEWEST: u64 = 32;

/// Returns the number of connections for a limit of `files` descriptors and `logs` logs. A quarter
/// of the descriptors is reserved for tiles that are being sent and for connections to a store for
/// readers.
///
/// # Errors
/// If fewer than [`FEWEST`] connections remain.
pub(crate) fn connections(files: u64, logs: u64) -> Result<u64> {
    let kept = files / 4 + PROCESS + logs * LOG;
    let left = files.saturating_sub(kept);
    let needed = (PROCESS + logs * LOG + FEWEST) * 4 / 3 + 1;
    ensure!(
        left >= FEWEST,
        "this process may open {files} files, but {logs} logs with their clients require at least \
         {needed}: raise the limit (`LimitNOFILE=` in the unit, `ulimit -n` in a shell)"
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
