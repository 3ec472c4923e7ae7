//! The messages between a follower and the leader.
//!
//! ```text
//! batch:  magic "lucarne batch 1\n", configuration (32 bytes)
//!         chains:  u16 { u8 { u32 length, DER } }
//!         entries: u16 { notBefore i64, chain u16, kind u8,
//!                        0: certificate · 1: issuer key hash (32), TBSCertificate, precertificate }
//! answer: magic "lucarne places2\n", status u8, depth u32, drain rate u32
//!         outcomes: u16 { 0: index u64, timestamp u64 · 1, 2: seconds u32 · 3 }
//! ```
//!
//! Numbers are big-endian; a byte string follows its u32 length. A key authenticates the sender,
//! which the leader trusts to have verified the chains. The leader computes identities and
//! fingerprints from the bytes, so a sender cannot submit an entry under another identity.

use std::sync::Arc;

use bytes::Bytes;
use lucarne_ct::{Entry, Issuer, SignedEntry};

const BATCH: &[u8; 16] = b"lucarne batch 1\n";
const ANSWER: &[u8; 16] = b"lucarne places2\n";

/// Maximum number of entries in a batch.
pub(crate) const MOST_ENTRIES: usize = 256;

/// A verified entry on its way to the leader.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) entry: Entry,
    /// notBefore of the certificate in Unix milliseconds, if it can be read.
    pub(crate) not_before_ms: Option<i64>,
}

/// Entries in one message.
#[derive(Debug)]
pub(crate) struct Batch {
    /// A checksum of those settings of the sender that must be the same in all instances.
    pub(crate) configuration: [u8; 32],
    pub(crate) items: Vec<Item>,
}

/// The outcome of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The entry is in the published log.
    Placed { index: u64, timestamp_ms: u64 },
    /// The leader's pool has no room.
    Full { retry_after_seconds: u32 },
    /// The leader cannot take the entry now.
    Unavailable { retry_after_seconds: u32 },
    /// The round of the entry failed, or the entry has no round. The entry may be in the log or
    /// not.
    Lost,
}

/// The leader's verdict on a whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Each entry has its outcome.
    Taken,
    /// The instance does not lead.
    NotLeading,
    /// The instance has another version.
    Version,
    /// The instance has another configuration of this log.
    Configuration,
}

/// The load of the leader's pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pressure {
    /// Entries that wait for a round.
    pub(crate) depth: u32,
    /// Entries per second that the last rounds removed; 0 before the first round.
    pub(crate) drain_rate: u32,
}

/// The leader's response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) pressure: Pressure,
    /// The outcomes of all entries in order, if the batch was taken.
    pub(crate) outcomes: Vec<Outcome>,
}

impl Batch {
    pub(crate) fn encode(configuration: &[u8; 32], items: &[Item]) -> Bytes {
        let mut chains: Vec<&Arc<[Arc<Issuer>]>> = Vec::new();
        let mut numbers = Vec::with_capacity(items.len());
        for Item { entry, .. } in items {
            let issuers = &entry.issuers;
            let known = chains
                .iter()
                .position(|known| Arc::ptr_eq(known, issuers) || *known == issuers);
            numbers.push(known.unwrap_or_else(|| {
                chains.push(issuers);
                chains.len() - 1
            }));
        }
        let mut bytes = Vec::new();
        bytes.extend_from_slice(BATCH);
        bytes.extend_from_slice(configuration);
        bytes.extend_from_slice(&(chains.len() as u16).to_be_bytes());
        for chain in chains {
            bytes.push(chain.len() as u8);
            chain.iter().for_each(|issuer| put(&mut bytes, &issuer.der));
        }
        bytes.extend_from_slice(&(items.len() as u16).to_be_bytes());
        for (item, chain) in items.iter().zip(numbers) {
            let not_before = item.not_before_ms.unwrap_or(i64::MIN);
            bytes.extend_from_slice(&not_before.to_be_bytes());
            bytes.extend_from_slice(&(chain as u16).to_be_bytes());
            bytes.push(item.entry.signed.kind() as u8);
            match &item.entry.signed {
                SignedEntry::X509 { certificate } => put(&mut bytes, certificate),
                SignedEntry::Precert {
                    issuer_key_hash,
                    tbs,
                } => {
                    bytes.extend_from_slice(issuer_key_hash);
                    put(&mut bytes, tbs);
                    put(
                        &mut bytes,
                        item.entry.precertificate.as_deref().unwrap_or_default(),
                    );
                }
            }
        }
        bytes.into()
    }

    /// Decodes a batch; returns `None` if the bytes are not a batch of this version.
    pub(crate) fn parse(bytes: Bytes) -> Option<Batch> {
        let mut rest = Rest(bytes);
        (rest.take(BATCH.len())? == BATCH[..]).then_some(())?;
        let configuration = rest.array()?;
        let mut chains = Vec::new();
        for _ in 0..rest.u16()? {
            let length = rest.array::<1>()?[0];
            let issuers = (0..length).map(|_| Some(Arc::new(Issuer::new(rest.string()?))));
            chains.push(issuers.collect::<Option<Arc<[_]>>>()?);
        }
        let count = usize::from(rest.u16()?);
        let mut items = Vec::with_capacity(count.min(MOST_ENTRIES));
        for _ in 0..count {
            let not_before = i64::from_be_bytes(rest.array()?);
            let issuers = chains.get(usize::from(rest.u16()?))?.clone();
            let kind = rest.array::<1>()?[0];
            let (signed, precertificate) = rest.signed(kind)?;
            items.push(Item {
                entry: Entry {
                    identity: signed.identity(),
                    signed,
                    precertificate,
                    issuers,
                },
                not_before_ms: (not_before != i64::MIN).then_some(not_before),
            });
        }
        let is_whole = rest.0.is_empty() && items.len() <= MOST_ENTRIES;
        is_whole.then_some(Batch {
            configuration,
            items,
        })
    }
}

impl Answer {
    /// Returns the response to a batch that is not taken.
    pub(crate) fn refusal(status: Status) -> Self {
        Answer {
            status,
            pressure: Pressure::default(),
            outcomes: Vec::new(),
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(27 + 17 * self.outcomes.len());
        bytes.extend_from_slice(ANSWER);
        bytes.push(self.status as u8);
        bytes.extend_from_slice(&self.pressure.depth.to_be_bytes());
        bytes.extend_from_slice(&self.pressure.drain_rate.to_be_bytes());
        bytes.extend_from_slice(&(self.outcomes.len() as u16).to_be_bytes());
        for outcome in &self.outcomes {
            match outcome {
                Outcome::Placed {
                    index,
                    timestamp_ms,
                } => {
                    bytes.push(0);
                    bytes.extend_from_slice(&index.to_be_bytes());
                    bytes.extend_from_slice(&timestamp_ms.to_be_bytes());
                }
                Outcome::Full {
                    retry_after_seconds: seconds,
                } => {
                    bytes.push(1);
                    bytes.extend_from_slice(&seconds.to_be_bytes());
                }
                Outcome::Unavailable {
                    retry_after_seconds: seconds,
                } => {
                    bytes.push(2);
                    bytes.extend_from_slice(&seconds.to_be_bytes());
                }
                Outcome::Lost => bytes.push(3),
            }
        }
        bytes.into()
    }

    /// Decodes a response; returns `None` if the bytes are not a response of this version.
    pub(crate) fn parse(bytes: Bytes) -> Option<Answer> {
        let mut rest = Rest(bytes);
        (rest.take(ANSWER.len())? == ANSWER[..]).then_some(())?;
        let status = match rest.array::<1>()?[0] {
            0 => Status::Taken,
            1 => Status::NotLeading,
            2 => Status::Version,
            3 => Status::Configuration,
            _ => return None,
        };
        let pressure = Pressure {
            depth: rest.u32()?,
            drain_rate: rest.u32()?,
        };
        let outcomes = (0..rest.u16()?).map(|_| {
            Some(match rest.array::<1>()?[0] {
                0 => Outcome::Placed {
                    index: u64::from_be_bytes(rest.array()?),
                    timestamp_ms: u64::from_be_bytes(rest.array()?),
                },
                1 => Outcome::Full {
                    retry_after_seconds: rest.u32()?,
                },
                2 => Outcome::Unavailable {
                    retry_after_seconds: rest.u32()?,
                },
                3 => Outcome::Lost,
                _ => return None,
            })
        });
        let outcomes = outcomes.collect::<Option<Vec<_>>>()?;
        rest.0.is_empty().then_some(Answer {
            status,
            pressure,
            outcomes,
        })
    }
}

fn put(bytes: &mut Vec<u8>, string: &[u8]) {
    bytes.extend_from_slice(&(string.len() as u32).to_be_bytes());
    bytes.extend_from_slice(string);
}

/// Bytes that are not decoded yet.
struct Rest(Bytes);

impl Rest {
    fn take(&mut self, length: usize) -> Option<Bytes> {
        (length <= self.0.len()).then(|| self.0.split_to(length))
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.as_ref().try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn string(&mut self) -> Option<Bytes> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn signed(&mut self, kind: u8) -> Option<(SignedEntry, Option<Bytes>)> {
        match kind {
            0 => Some((
                SignedEntry::X509 {
                    certificate: self.string()?,
                },
                None,
            )),
            1 => {
                let signed = SignedEntry::Precert {
                    issuer_key_hash: self.array()?,
                    tbs: self.string()?,
                };
                Some((signed, Some(self.string()?)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(n: u8, issuers: &Arc<[Arc<Issuer>]>) -> Item {
        let signed = match n % 2 {
            0 => SignedEntry::X509 {
                certificate: vec![n; 40].into(),
            },
            _ => SignedEntry::Precert {
                issuer_key_hash: [n; 32],
                tbs: vec![n; 30].into(),
            },
        };
        Item {
            entry: Entry {
                identity: signed.identity(),
                precertificate: (n % 2 == 1).then(|| vec![n; 50].into()),
                signed,
                issuers: issuers.clone(),
            },
            not_before_ms: (n > 2).then_some(i64::from(n) - 3),
        }
    }

    fn items() -> Vec<Item> {
        let issuer = |n: u8| Arc::new(Issuer::new(vec![n; 20].into()));
        let chains: [Arc<[_]>; 2] = [Arc::from([issuer(1), issuer(2)]), Arc::from([])];
        (0..6)
            .map(|n| item(n, &chains[usize::from(n) / 3]))
            .collect()
    }

    #[test]
    fn a_batch_reads_back_and_no_part_of_it_does() {
        let items = items();
        let bytes = Batch::encode(&[9; 32], &items);
        let read = Batch::parse(bytes.clone()).unwrap();
        assert_eq!(read.configuration, [9; 32]);
        assert_eq!(format!("{:?}", read.items), format!("{items:?}"));
        assert!(Arc::ptr_eq(
            &read.items[0].entry.issuers,
            &read.items[1].entry.issuers
        ));
        for length in 0..bytes.len() {
            assert!(Batch::parse(bytes.slice(..length)).is_none(), "{length}");
        }
        let longer = [&bytes[..], b"\0"].concat();
        assert!(Batch::parse(longer.into()).is_none());
    }

    #[test]
    fn an_answer_reads_back_and_no_part_of_it_does() {
        let answer = Answer {
            status: Status::Taken,
            pressure: Pressure {
                depth: 7,
                drain_rate: 8,
            },
            outcomes: vec![
                Outcome::Placed {
                    index: 1,
                    timestamp_ms: 2,
                },
                Outcome::Full {
                    retry_after_seconds: 3,
                },
                Outcome::Unavailable {
                    retry_after_seconds: 4,
                },
                Outcome::Lost,
            ],
        };
        let bytes = answer.encode();
        assert_eq!(Answer::parse(bytes.clone()), Some(answer));
        for length in 0..bytes.len() {
            assert!(Answer::parse(bytes.slice(..length)).is_none(), "{length}");
        }
        for status in [Status::NotLeading, Status::Version, Status::Configuration] {
            let refusal = Answer::refusal(status);
            assert_eq!(Answer::parse(refusal.encode()), Some(refusal));
        }
    }
}
