//! Entries that logs promised with SCTs, until an audit has found them or has proven their absence.

use lucarne_ct::{ListedLog, LogId, Sct};
use lucarne_tlog::Hash;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json};

use super::{Inventory, events, loaded, now, stored};

/// Merge delay of a log whose entry in the list has none, in seconds.
pub(crate) const USUAL_MMD: u64 = 86_400;
/// Limit of the hosts in a report.
const MAX_HOSTS: i64 = 10;

/// An entry to look up.
#[derive(Debug, Clone)]
pub(crate) struct Due {
    pub(crate) leaf: Hash,
    /// Index in the tree, if the SCT has it.
    pub(crate) index: Option<u64>,
    fingerprint: Vec<u8>,
    sct: Vec<u8>,
    tries: u32,
    /// Whether the look-up was postponed before.
    postponed: bool,
}

/// Finding about an entry in the tree of a verified head.
#[derive(Debug)]
pub(crate) enum Finding {
    Included,
    /// The entry is proven to be missing; the proof.
    Missing(Value),
    /// The log responded that it lacks the entry, without a signature; the response. A second
    /// response must confirm this.
    Denied(Value),
}

/// A tree head with a verified signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) size: u64,
    pub(crate) root: Hash,
    pub(crate) timestamp: u64,
    /// The checkpoint, or the response to `get-sth`.
    pub(crate) note: Vec<u8>,
}

impl Head {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.note).into_owned()
    }
}

/// Returns the logs with entries to look up now.
pub(crate) fn due_logs(db: &Connection) -> rusqlite::Result<Vec<LogId>> {
    let select = "SELECT DISTINCT log FROM entries WHERE state = 'pending' \
                  AND due <= ?1 AND again <= ?1";
    let mut select = db.prepare_cached(select)?;
    let logs = select.query_map([now()], |row| Ok(LogId(row.get(0)?)))?;
    logs.collect()
}

/// Returns entries of `log` that must be in a tree of the time `until`, in the order of
/// the tree, and postponed entries last.
pub(crate) fn due(db: &Connection, log: &LogId, until: u64) -> rusqlite::Result<Vec<Due>> {
    let select = "SELECT leaf, fingerprint, sct, tries, again FROM entries \
                  WHERE log = ?1 AND state = 'pending' AND due <= min(?2, ?3) AND again <= ?3 \
                  ORDER BY again, due LIMIT 256";
    let mut select = db.prepare_cached(select)?;
    let rows = select.query_map(params![log.0, stored(until), now()], |row| {
        let sct: Vec<u8> = row.get(2)?;
        Ok(Due {
            leaf: Hash(row.get(0)?),
            index: Sct::parse(&sct).ok().and_then(|sct| sct.index()),
            fingerprint: row.get(1)?,
            sct,
            tries: row.get(3)?,
            postponed: row.get::<_, i64>(4)? > 0,
        })
    })?;
    let mut due = rows.collect::<Result<Vec<_>, _>>()?;
    // Neighbours share tiles. An entry whose look-up fails delays no other one.
    due.sort_by_key(|due| (due.postponed, due.index));
    Ok(due)
}

/// Postpones the look-up of an entry after a failure.
pub(crate) fn postpone(
    db: &Connection,
    log: &LogId,
    leaf: &Hash,
    wait_ms: u64,
) -> rusqlite::Result<()> {
    let again = now().saturating_add(stored(wait_ms));
    let update = "UPDATE entries SET again = ? WHERE log = ? AND leaf = ?";
    db.prepare_cached(update)?
        .execute(params![again, log.0, leaf.0])
        .map(|_| ())
}

/// Returns the last verified head of a log.
pub(crate) fn head(db: &Connection, log: &LogId) -> rusqlite::Result<Option<Head>> {
    let select = "SELECT size, root, timestamp, note FROM heads WHERE log = ?";
    let head = db.prepare_cached(select)?.query_row([log.0], |row| {
        Ok(Head {
            size: loaded(row.get(0)?),
            root: Hash(row.get(1)?),
            timestamp: loaded(row.get(2)?),
            note: row.get(3)?,
        })
    });
    head.optional()
}

/// Stores a verified head that extends the last one.
pub(crate) fn keep_head(db: &Connection, log: &LogId, head: &Head) -> rusqlite::Result<()> {
    let (size, timestamp) = (stored(head.size), stored(head.timestamp));
    let insert = "INSERT OR REPLACE INTO heads VALUES (?, ?, ?, ?, ?)";
    let row = params![log.0, size, head.root.0, timestamp, head.note];
    db.prepare_cached(insert)?.execute(row).map(|_| ())
}

/// Stores the finding about an entry, and reports a missing entry. `confirm_ms` is the time until
/// the second request for an entry that the log denies.
pub(crate) fn settle(
    to: &Inventory,
    db: &Connection,
    (log, head): (&ListedLog, &Head),
    due: &Due,
    finding: &Finding,
    confirm_ms: u64,
) -> rusqlite::Result<()> {
    let (state, proof) = match finding {
        Finding::Included => ("included", None),
        Finding::Denied(_) if due.tries == 0 => ("pending", None),
        Finding::Missing(proof) | Finding::Denied(proof) => ("missing", Some(proof)),
    };
    let again = now().saturating_add(stored(confirm_ms));
    let update = "UPDATE entries SET state = ?, tries = tries + 1, again = ? \
                  WHERE log = ? AND leaf = ?";
    let changed =
        db.prepare_cached(update)?
            .execute(params![state, again, log.log_id.0, due.leaf.0])?;
    // The certificate may have been removed in the meantime.
    let Some(proof) = proof.filter(|_| changed > 0) else {
        return Ok(());
    };
    let select = "SELECT der, issuer_key FROM certificates WHERE fingerprint = ?";
    let certificate = db
        .prepare_cached(select)?
        .query_row([&due.fingerprint], |row| {
            Ok((
                row.get::<_, Option<Vec<u8>>>(0)?,
                row.get::<_, Option<Vec<u8>>>(1)?,
            ))
        });
    let (der, issuer_key) = certificate.optional()?.unwrap_or_default();
    let base64 =
        |bytes: Option<Vec<u8>>| bytes.map(|bytes| base64_simd::STANDARD.encode_to_string(bytes));
    let select = "SELECT name FROM hosts WHERE fingerprint = ? ORDER BY last DESC LIMIT ?";
    let mut select = db.prepare_cached(select)?;
    let hosts = select.query_map(params![due.fingerprint, MAX_HOSTS], |row| row.get(0))?;
    let hosts: Vec<String> = hosts.collect::<Result<_, _>>()?;
    let sct: Value = serde_json::from_slice(&due.sct).unwrap_or_default();
    let body = json!({
        "log": named(log), "hosts": hosts, "certificate": hex::encode(&due.fingerprint),
        "certificateDer": base64(der), "issuerKeyHash": base64(issuer_key), "sct": sct,
        "leafHash": due.leaf.to_string(), "checkpoint": head.text(), "proof": proof,
    });
    events::report(
        to,
        db,
        "missing-entry",
        &format!("{}:{}", log.log_id, due.leaf),
        body,
    )
}

/// Reports that a log signed two trees of which neither extends the other.
pub(crate) fn two_histories(
    to: &Inventory,
    db: &Connection,
    log: &ListedLog,
    (old, new): (&Head, &Head),
    proof: &Value,
) -> rusqlite::Result<()> {
    let body = json!({
        "log": named(log), "checkpoints": [old.text(), new.text()], "proof": proof,
    });
    // One report for each stored head: every later head differs from it, too.
    let of = format!("{}:{}:{}", log.log_id, old.size, old.root);
    events::report(to, db, "two-histories", &of, body)
}

fn named(log: &ListedLog) -> Value {
    json!({"id": log.log_id.to_string(), "description": log.description,
           "url": log.submission_url()})
}
