//! Bounded memory of observed hosts and certificates. The least recently seen entry is dropped
//! first, and counted.

use std::collections::VecDeque;
use std::sync::Arc;

use lru::LruCache;
use lucarne_ct::{Certificate, Fingerprint, Issuer};

use super::issuer::{Issuers, Path};
use super::judge::{Judgement, SctDeliveries};
use super::submission::Submission;

/// Maximum number of remembered certificates of one host; the latest are kept.
const MAX_PER_HOST: usize = 8;
/// Limit of issuers, which all certificates share.
const MAX_ISSUERS: usize = 512;
/// Limit of remembered fingerprints of certificates that were offered to a log.
const MAX_OFFERED: usize = 65_536;

/// An observed certificate.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) leaf: Arc<[u8]>,
    /// Certificates that the server sent, in its order.
    pub(crate) issuers: Issuers,
    pub(crate) deliveries: Arc<SctDeliveries>,
    pub(crate) path: Path,
    pub(crate) judgement: Judgement,
    pub(crate) submission: Submission,
    pub(crate) first_ms: u64,
    pub(crate) last_ms: u64,
    pub(crate) handshakes: u64,
}

impl Record {
    /// Estimates the memory of the record in bytes; shared issuers count in full.
    fn weight(&self) -> usize {
        let issuers = self.issuers.iter().chain(self.path.added.iter());
        let issuers: usize = issuers.map(|issuer| issuer.der.len()).sum();
        self.leaf.len() + issuers + self.deliveries.len() + self.judgement.scts.len() * 256 + 512
    }

    /// Parses the certificate. Returns `None` if the server sent something else.
    pub(crate) fn certificate(&self) -> Option<Certificate<'_>> {
        Certificate::parse(&self.leaf).ok()
    }
}

/// An observed host.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) first_ms: u64,
    pub(crate) last_ms: u64,
    pub(crate) handshakes: u64,
    /// Fingerprints, latest first.
    pub(crate) certificates: VecDeque<Fingerprint>,
}

/// Maximum sizes of the [`Memory`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) hosts: usize,
    pub(crate) certificates: usize,
    /// Bytes of certificates and their SCT deliveries.
    pub(crate) bytes: usize,
}

/// Numbers of hosts and certificates that were dropped.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Forgotten {
    pub(crate) hosts: u64,
    pub(crate) certificates: u64,
}

/// A certificate above a leaf, stored once for all chains.
#[derive(Debug)]
struct Interned {
    issuer: Arc<Issuer>,
    /// Subject in DER; empty if the bytes are not a certificate.
    subject: Box<[u8]>,
}

impl Interned {
    fn new(der: &[u8]) -> Self {
        let certificate = Certificate::parse(der);
        Interned {
            subject: certificate.map_or(&[][..], |it| it.subject()).into(),
            issuer: Arc::new(Issuer::new(der.to_vec().into())),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Memory {
    bounds: Bounds,
    certificates: LruCache<Fingerprint, Record>,
    hosts: LruCache<String, Host>,
    issuers: LruCache<Fingerprint, Interned>,
    offered: LruCache<Fingerprint, ()>,
    bytes: usize,
    pub(crate) forgotten: Forgotten,
}

impl Memory {
    pub(crate) fn new(bounds: Bounds) -> Self {
        // The caches are unbounded, because a cache with a capacity allocates its whole capacity at
        // once.
        Memory {
            bounds,
            certificates: LruCache::unbounded(),
            hosts: LruCache::unbounded(),
            issuers: LruCache::unbounded(),
            offered: LruCache::unbounded(),
            bytes: 0,
            forgotten: Forgotten::default(),
        }
    }

    /// Records a handshake with `host`, which presented this certificate.
    pub(crate) fn saw(&mut self, name: &str, fingerprint: Fingerprint, at_ms: u64) {
        let host = self.hosts.get_or_insert_mut_ref(name, || Host {
            name: name.to_owned(),
            first_ms: at_ms,
            last_ms: at_ms,
            handshakes: 0,
            certificates: VecDeque::new(),
        });
        host.last_ms = host.last_ms.max(at_ms);
        host.handshakes += 1;
        if host.certificates.front() != Some(&fingerprint) {
            host.certificates.retain(|other| *other != fingerprint);
            host.certificates.push_front(fingerprint);
            host.certificates.truncate(MAX_PER_HOST);
        }
        while self.hosts.len() > self.bounds.hosts.max(1) {
            self.hosts.pop_lru();
            self.forgotten.hosts += 1;
        }
        if let Some(record) = self.certificates.get_mut(&fingerprint) {
            record.last_ms = record.last_ms.max(at_ms);
            record.handshakes += 1;
        }
    }

    /// Returns the record of a certificate without marking it as recently used.
    pub(crate) fn record(&self, fingerprint: &Fingerprint) -> Option<&Record> {
        self.certificates.peek(fingerprint)
    }

    /// Changes the record of a certificate, if it is still remembered.
    pub(crate) fn change(&mut self, fingerprint: &Fingerprint, change: impl FnOnce(&mut Record)) {
        if let Some(record) = self.certificates.peek_mut(fingerprint) {
            self.bytes -= record.weight();
            change(record);
            self.bytes += record.weight();
        }
    }

    /// Stores a record, and replaces the old record of the certificate.
    pub(crate) fn remember(&mut self, record: Record) {
        self.bytes += record.weight();
        if let Some((_, old)) = self.certificates.push(record.fingerprint, record) {
            self.bytes -= old.weight();
        }
        while self.certificates.len() > 1
            && (self.certificates.len() > self.bounds.certificates
                || self.bytes > self.bounds.bytes)
        {
            if let Some((_, old)) = self.certificates.pop_lru() {
                self.bytes -= old.weight();
                self.forgotten.certificates += 1;
            }
        }
    }

    /// Stores each certificate of `chain` once. Returns the stored certificates, and the subjects
    /// of the new ones.
    pub(crate) fn intern(&mut self, chain: &[Vec<u8>]) -> (Issuers, Vec<Box<[u8]>>) {
        let mut new = Vec::new();
        let issuers = chain.iter().map(|der| {
            let make = || Interned::new(der);
            let before = self.issuers.len();
            let fingerprint = Fingerprint::of(der);
            let issuer = self.issuers.get_or_insert(fingerprint, make).issuer.clone();
            if self.issuers.len() > before {
                new.extend(self.issuers.peek(&fingerprint).map(|it| it.subject.clone()));
            }
            issuer
        });
        let issuers: Vec<_> = issuers.collect();
        while self.issuers.len() > MAX_ISSUERS {
            self.issuers.pop_lru();
        }
        (issuers.into(), new)
    }

    /// Returns the issuers with this subject that any server has sent, latest first. Only their
    /// keys can prove that they issued a certificate.
    pub(crate) fn issuers_named(&self, subject: &[u8]) -> Vec<Arc<Issuer>> {
        let issuers = self.issuers.iter().map(|(_, interned)| interned);
        let named = issuers.filter(|interned| *interned.subject == *subject);
        named.map(|interned| interned.issuer.clone()).collect()
    }

    /// Records that a certificate is offered to a log. Returns `false` if it was offered before.
    pub(crate) fn offer(&mut self, fingerprint: Fingerprint) -> bool {
        let first = self.offered.put(fingerprint, ()).is_none();
        while self.offered.len() > MAX_OFFERED {
            self.offered.pop_lru();
        }
        first
    }

    /// Allows a certificate to be offered again.
    pub(crate) fn forget_offer(&mut self, fingerprint: &Fingerprint) {
        self.offered.pop(fingerprint);
    }

    /// Returns the hosts, latest first.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().map(|(_, host)| host)
    }

    pub(crate) fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.peek(name)
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.certificates.iter().map(|(_, record)| record)
    }

    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.hosts.len(), self.certificates.len())
    }
}
