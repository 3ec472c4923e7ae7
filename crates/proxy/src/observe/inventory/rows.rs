//! Reading of the inventory for the page and its JSON.

use rusqlite::Connection;
use serde::Serialize;

use super::super::filter::{Filter, PAGE_SIZE, Show, encoded};
use super::events::{self, EventRow};
use super::{Inventory, stored};
use crate::time::{day, time};

/// Number of events on the page.
const EVENTS: i64 = 100;

/// A page of the inventory.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Inventoried {
    /// Present problems.
    pub(crate) troubles: Vec<String>,
    /// Number of matching rows; `rows` begins at `from`.
    pub(crate) matching: usize,
    pub(crate) from: usize,
    pub(crate) rows: Vec<InventoryRow>,
    /// The latest events.
    pub(crate) events: Vec<EventRow>,
}

/// A certificate of a host.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InventoryRow {
    pub(crate) host: String,
    #[serde(skip)]
    pub(crate) host_encoded: String,
    pub(crate) fingerprint: String,
    pub(crate) issuer: String,
    pub(crate) expires: String,
    pub(crate) standing: String,
    pub(crate) logged: bool,
    pub(crate) first_seen: String,
    pub(crate) last_seen: String,
    pub(crate) handshakes: i64,
    /// Entries in logs by the result of their audit.
    pub(crate) pending: i64,
    pub(crate) included: i64,
    pub(crate) missing: i64,
}

impl Inventory {
    /// Returns one page of the matching rows, latest first. `missing` selects certificates with a
    /// missing entry. Returns `None` if the database cannot be read.
    pub(crate) fn page(&self, filter: &Filter, missing: bool) -> Option<Inventoried> {
        let (rows, matching, events) = self.within_time(|_, db| {
            let (rows, matching) = rows(db, filter, missing)?;
            Ok((rows, matching, events::latest(db, EVENTS)?))
        })?;
        Some(Inventoried {
            troubles: self.troubles(),
            matching,
            from: filter.from,
            rows,
            events,
        })
    }
}

fn rows(
    db: &Connection,
    filter: &Filter,
    missing: bool,
) -> rusqlite::Result<(Vec<InventoryRow>, usize)> {
    let state = "SELECT count(*) FROM entries e WHERE e.fingerprint = h.fingerprint AND e.state =";
    let show = match filter.show {
        Show::All => "TRUE",
        Show::NotLogged => "NOT c.logged",
        Show::PolicyFailed => "c.policy_failed",
        Show::Invalid => "c.standing = 'invalid'",
        Show::Unverified => "c.standing = 'unverified'",
        Show::Revoked => "c.standing = 'revoked'",
    };
    let missing = if missing {
        format!("({state} 'missing') > 0")
    } else {
        "TRUE".to_owned()
    };
    let from = format!(
        "FROM hosts h JOIN certificates c USING (fingerprint) \
         WHERE instr(h.name, ?1) > 0 AND {show} AND {missing}"
    );
    let count = format!("SELECT count(*) {from}");
    let matching: i64 = db
        .prepare_cached(&count)?
        .query_row([&filter.query], |row| row.get(0))?;
    let select = format!(
        "SELECT h.name, h.fingerprint, c.issuer, c.not_after, c.standing, c.logged, h.first, \
         h.last, h.handshakes, ({state} 'pending'), ({state} 'included'), ({state} 'missing') \
         {from} ORDER BY h.last DESC LIMIT ?2 OFFSET ?3"
    );
    let mut select = db.prepare_cached(&select)?;
    let page = (
        &filter.query,
        stored(PAGE_SIZE as u64),
        stored(filter.from as u64),
    );
    let rows = select.query_map(page, |row| {
        let host: String = row.get(0)?;
        Ok(InventoryRow {
            host_encoded: encoded(&host),
            host,
            fingerprint: hex::encode(row.get::<_, Vec<u8>>(1)?),
            issuer: row.get(2)?,
            expires: row.get::<_, Option<i64>>(3)?.map_or_else(String::new, day),
            standing: row.get(4)?,
            logged: row.get(5)?,
            first_seen: time(row.get::<_, i64>(6)?),
            last_seen: time(row.get::<_, i64>(7)?),
            handshakes: row.get(8)?,
            pending: row.get(9)?,
            included: row.get(10)?,
            missing: row.get(11)?,
        })
    })?;
    let rows = rows.collect::<Result<_, _>>()?;
    Ok((rows, usize::try_from(matching).unwrap_or(usize::MAX)))
}
