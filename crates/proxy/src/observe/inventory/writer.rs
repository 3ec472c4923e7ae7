//! The thread that writes notes, and keeps the bounds.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::{Inventory, Note, note, now};

/// Interval at which expiring certificates are searched while no note adds a row.
const SEARCH: Duration = Duration::from_secs(3600);
/// Limit of the notes in one transaction.
const MAX_BATCH: usize = 256;

pub(super) fn spawn(to: &Arc<Inventory>, notes: Receiver<Note>) -> std::io::Result<()> {
    let weak = Arc::downgrade(to);
    let thread = std::thread::Builder::new().name("inventory".to_owned());
    thread.spawn(move || run(&weak, &notes)).map(|_| ())
}

/// Writes notes until the inventory is dropped.
fn run(to: &Weak<Inventory>, notes: &Receiver<Note>) {
    let (mut batch, mut searched) = (Vec::new(), None::<Instant>);
    loop {
        let Some(inventory) = to.upgrade() else {
            return;
        };
        let count = batch.len();
        let search = searched.is_none_or(|at| at.elapsed() >= SEARCH);
        let written = inventory.within(|to, db| write(to, db, &batch, search));
        if written.is_some() && search {
            searched = Some(Instant::now());
        }
        match written {
            Some(()) if count > 0 => inventory.trouble.store(Arc::default()),
            Some(()) => {}
            None => inventory.metrics.drop_many("inventory-notes", count as u64),
        }
        batch.clear();
        drop(inventory);
        match notes.recv_timeout(SEARCH) {
            Ok(note) => batch.push(note),
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        }
        batch.extend(notes.try_iter().take(MAX_BATCH - 1));
    }
}

/// Stores notes. Searches expiring certificates if `search` is `true`, or a note adds a row.
fn write(to: &Inventory, db: &Connection, notes: &[Note], search: bool) -> rusqlite::Result<()> {
    let mut added = search;
    for note in notes {
        added |= note.store(to, db)?;
    }
    if added {
        note::expiring(to, db, now())?;
        trim(to, db)?;
    }
    count(to, db)
}

/// Removes the least recently seen rows beyond the bound.
fn trim(to: &Inventory, db: &Connection) -> rusqlite::Result<()> {
    let rows = to.bounds.rows;
    let excess = |table: &str| -> rusqlite::Result<i64> {
        let count = format!("SELECT max(count(*) - ?, 0) FROM {table}");
        db.prepare_cached(&count)?
            .query_row([rows], |row| row.get(0))
    };
    let (hosts, certificates) = (excess("hosts")?, excess("certificates")?);
    if hosts > 0 {
        let oldest = "DELETE FROM hosts WHERE (name, fingerprint) IN \
                      (SELECT name, fingerprint FROM hosts ORDER BY last LIMIT ?)";
        db.prepare_cached(oldest)?.execute([hosts])?;
        to.metrics
            .drop_many("inventory-hosts", hosts.cast_unsigned());
    }
    if certificates > 0 {
        let oldest = "SELECT fingerprint FROM certificates ORDER BY last LIMIT ?";
        for delete in [
            format!("DELETE FROM hosts WHERE fingerprint IN ({oldest})"),
            // Evidence of a missing entry stays in its event.
            format!("DELETE FROM entries WHERE fingerprint IN ({oldest})"),
            format!("DELETE FROM certificates WHERE fingerprint IN ({oldest})"),
        ] {
            db.prepare_cached(&delete)?.execute([certificates])?;
        }
        to.metrics
            .drop_many("inventory-certificates", certificates.cast_unsigned());
    }
    Ok(())
}

/// Sets the gauges.
fn count(to: &Inventory, db: &Connection) -> rusqlite::Result<()> {
    for (what, select) in [
        ("hosts", "SELECT count(*) FROM hosts"),
        ("certificates", "SELECT count(*) FROM certificates"),
        (
            "entries-pending",
            "SELECT count(*) FROM entries WHERE state = 'pending'",
        ),
        (
            "entries-included",
            "SELECT count(*) FROM entries WHERE state = 'included'",
        ),
        (
            "entries-missing",
            "SELECT count(*) FROM entries WHERE state = 'missing'",
        ),
        (
            "events-waiting",
            "SELECT count(*) FROM events WHERE next IS NOT NULL",
        ),
    ] {
        to.gauge(
            what,
            db.prepare_cached(select)?.query_row([], |row| row.get(0))?,
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Bounds, connect};
    use super::*;

    #[test]
    fn expiring_certificates_are_searched_although_no_row_is_added() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inventory.sqlite");
        let connection = connect(&path).unwrap();
        let insert = "INSERT INTO certificates (fingerprint, issuer, not_after, standing, logged, \
                      policy_failed, first, last) VALUES (x'01', 'CN=A', ?, 'good', 1, 0, 1, 1)";
        connection.execute(insert, [now() + 60_000]).unwrap();
        let insert = "INSERT INTO hosts VALUES ('a.example', x'01', 1, 1, 1)";
        connection.execute(insert, []).unwrap();
        let inventory = Inventory {
            connection: connection.into(),
            path,
            bounds: Bounds {
                rows: 10,
                expiry_ms: 86_400_000,
                hooked: false,
            },
            notes: std::sync::mpsc::sync_channel(1).0,
            metrics: Default::default(),
            trouble: Default::default(),
            log_troubles: Default::default(),
            wake: Default::default(),
        };
        for (search, events) in [(false, 0), (true, 1), (true, 1)] {
            let found = inventory.within(|to, db| {
                write(to, db, &[], search)?;
                let count = "SELECT count(*) FROM events WHERE kind = 'expiring'";
                db.query_row(count, [], |row| row.get::<_, i64>(0))
            });
            assert_eq!(found, Some(events));
        }
    }
}
