//! Share of the process's file descriptors that connections may use.
//!
//! Connections need descriptors, as do files of rounds, the lock, the dedup index and connections
//! to stores. The limit reserves enough for the logs at any number of clients, because a log that
//! cannot open a file stops.

use anyhow::{Result, ensure};

use crate::config::Config;
use crate::runtime;

/// Descriptors of the process: listeners, log output, the lock, reread secrets and roots, one for
/// each blocking thread, and connections that are refused because of the limit.
const PROCESS: u64 = 256;

/// Descriptors of one log: its directory, journal and dedup index, and connections to its store.
const LOG: u64 = 64;

/// Minimum number of connections of a useful server.
const FEWEST: u64 = 32;

/// Lowers `maxconnections` until the logs have enough open files. Logs no warning, because the
/// operator did not write this configuration.
///
/// # Errors
/// If the limit of open files of the process is too low.
#[cfg(feature = "load")]
pub(crate) fn fit_connections(config: &mut Config) -> Result<()> {
    if let Some((_, max)) = max_connections(config)? {
        let connections = &mut config.http.connections;
        *connections = (*connections).min(max);
    }
    Ok(())
}

/// Returns the limit of open files, and the maximum number of connections that leaves enough files
/// for the logs; `None` if open files are unlimited.
fn max_connections(config: &Config) -> Result<Option<(u64, usize)>> {
    let Some(files) = runtime::raise_open_files() else {
        return Ok(None);
    };
    let max = connections(files, config.logs.len() as u64)?;
    Ok(Some((files, max as usize)))
}

/// Reports that the logs of a reload leave too few files for `maxconnections`.
pub(crate) fn check_connections(config: &Config) {
    match max_connections(config) {
        Ok(Some((files, max))) if config.http.connections > max => tracing::warn!(
            maxconnections = config.http.connections,
            most = max,
            files,
            "maxconnections does not leave enough open files for the logs: raise the limit \
             (LimitNOFILE) or lower maxconnections, then restart"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!("{error:#}"),
    }
}

/// Lowers `maxconnections` so that enough open files are left for the logs.
pub(crate) fn bound_connections(config: &mut Config) -> Result<()> {
    let Some((files, max)) = max_connections(config)? else {
        return Ok(());
    };
    let connections = &mut config.http.connections;
    if *connections > max {
        tracing::warn!(
            maxconnections = *connections,
            most = max,
            files,
            "maxconnections is reduced, because the limit of open files is too low for it: raise \
             LimitNOFILE, or configure a lower maxconnections"
        );
        *connections = max;
    }
    Ok(())
}

/// Returns the number of connections for a limit of `files` descriptors and `logs` logs. A quarter
/// of the descriptors is reserved for tiles that are being sent and for connections to a store for
/// readers.
///
/// # Errors
/// If fewer than [`FEWEST`] connections remain.
fn connections(files: u64, logs: u64) -> Result<u64> {
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
