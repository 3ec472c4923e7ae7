//! Prepared chains: minted once, kept on disk, encoded in memory.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use anyhow::{Context, Result, ensure};
use base64_simd::STANDARD;
use clap::ValueEnum;
use lucarne_mint::{Authority, KeyPair, KeyType, LeafOptions, der::Reader, testing::Pki};

use crate::{
    connection::Pieces,
    load::{REPEATED, Requests},
};

/// CA that signs the leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Issuer {
    /// RSA-2048
    Rsa,
    /// ECDSA P-256
    P256,
    /// ECDSA P-384
    P384,
}

impl Issuer {
    fn of(self, pki: &Pki) -> &Authority {
        match self {
            Issuer::Rsa => &pki.rsa,
            Issuer::P256 => &pki.p256,
            Issuer::P384 => &pki.p384,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Issuer::Rsa => "RSA-2048",
            Issuer::P256 => "P-256",
            Issuer::P384 => "P-384",
        }
    }
}

/// A directory with a public key infrastructure and leaves by its issuers.
pub(crate) struct Store {
    directory: PathBuf,
    pub(crate) pki: Pki,
}

impl Store {
    /// Opens or creates the store. A store is replaced after a day, because a log treats leaves
    /// older than its `freshness` as old certificates, in another lane.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let directory = directory.join("chains");
        let file = directory.join("pki.pem");
        if age_in_days(&file).is_some_and(|days| days >= 1) {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let pki = match fs::read_to_string(&file) {
            Ok(text) => load(&text)
                .with_context(|| format!("cannot use {}: delete the file", file.display()))?,
            Err(_) => {
                let pki = Pki::new()?;
                fs::write(&file, save(&pki)?)?;
                pki
            }
        };
        Ok(Self { directory, pki })
    }

    /// Returns at least `count` leaves by `issuer`, in DER, and mints missing leaves.
    fn leaves(&self, issuer: Issuer, count: usize) -> Result<Vec<Vec<u8>>> {
        let file = self.directory.join(format!("{}.der", issuer.name()));
        let mut leaves = fs::read(&file)
            .map(|bytes| split(&bytes))
            .unwrap_or_default();
        if leaves.len() < count {
            let missing = count - leaves.len();
            eprintln!(
                "minting {missing} leaves by {} into {}",
                issuer.name(),
                file.display()
            );
            let fresh = mint(
                issuer.of(&self.pki),
                &self.pki.leaf_key,
                leaves.len(),
                missing,
            )?;
            let mut out = fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(&file)?;
            let bytes: Vec<u8> = fresh.concat();
            out.write_all(&bytes)?;
            leaves.extend(fresh);
        }
        leaves.truncate(count);
        Ok(leaves)
    }

    /// Returns requests that submit `count` leaves by `issuer` to the log at `path`.
    pub(crate) fn submissions(
        &self,
        issuer: Issuer,
        count: usize,
        host: &str,
        path: &str,
        duplicates: f64,
    ) -> Result<Submissions> {
        let intermediate = STANDARD.encode_to_string(issuer.of(&self.pki).cert_der());
        let mut submissions = Submissions {
            head: format!(
                "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: "
            ),
            tail: format!("\",\"{intermediate}\"]}}"),
            line: Vec::new(),
            leaves: String::with_capacity(count * 1400),
            ends: Vec::with_capacity(count),
            next: 0,
            duplicates: (duplicates * f64::from(u32::MAX)) as u32,
            random: 0x9e37_79b9_7f4a_7c15,
        };
        for leaf in self.leaves(issuer, count)? {
            STANDARD.encode_append(&leaf, &mut submissions.leaves);
            submissions.ends.push(submissions.leaves.len());
        }
        Ok(submissions)
    }

    /// Returns one leaf and its issuer, in DER.
    pub(crate) fn sample(&self, issuer: Issuer) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut leaves = self.leaves(issuer, 1)?;
        let leaf = leaves.pop().context("expected one leaf, found none")?;
        Ok((leaf, issuer.of(&self.pki).cert_der().to_vec()))
    }
}

fn age_in_days(file: &Path) -> Option<u64> {
    let modified = fs::metadata(file).ok()?.modified().ok()?;
    Some(modified.elapsed().ok()?.as_secs() / 86_400)
}

fn save(pki: &Pki) -> Result<String> {
    let all = [&pki.root, &pki.rsa, &pki.p256, &pki.p384].map(Authority::to_pem);
    let all: Result<Vec<String>, _> = all.into_iter().collect();
    Ok(all?.join("=\n"))
}

fn load(text: &str) -> Result<Pki> {
    let parts: Vec<&str> = text.split("=\n-----BEGIN PRIVATE").collect();
    ensure!(parts.len() == 4, "expected 4 CAs, found {}", parts.len());
    let part = |number: usize| -> Result<Authority> {
        let again = if number > 0 { "-----BEGIN PRIVATE" } else { "" };
        Ok(Authority::from_pem(&format!("{again}{}", parts[number]))?)
    };
    Ok(Pki {
        root: part(0)?,
        rsa: part(1)?,
        p256: part(2)?,
        p384: part(3)?,
        leaf_key: Arc::new(KeyPair::generate(KeyType::EcdsaP256)?),
    })
}

/// Splits concatenated certificates in DER; the header of each has its length.
fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut leaves = Vec::new();
    let mut file = Reader::new(bytes);
    while let Ok(leaf) = file.any("leaf") {
        leaves.push(leaf.raw.to_vec());
    }
    leaves
}

fn mint(issuer: &Authority, key: &Arc<KeyPair>, from: usize, count: usize) -> Result<Vec<Vec<u8>>> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let share = |thread: usize| {
        let numbers = (from..from + count).skip(thread).step_by(threads);
        let leaf = |number| {
            let name = format!("load-{number:08}.example.test");
            let www = format!("www.{name}");
            issuer.issue(&LeafOptions::with_key([name, www], key.clone()))
        };
        numbers.map(leaf).collect::<Result<Vec<_>, _>>()
    };
    thread::scope(|scope| {
        let spawned: Vec<_> = (0..threads)
            .map(|t| scope.spawn(move || share(t)))
            .collect();
        let mut leaves = Vec::with_capacity(count);
        for thread in spawned {
            let minted = thread
                .join()
                .map_err(|_| anyhow::anyhow!("a thread that mints certificates panicked"))?;
            leaves.extend(minted?);
        }
        Ok(leaves)
    })
}

/// `add-chain` requests: each leaf once, and some leaves again.
pub(crate) struct Submissions {
    head: String,
    tail: String,
    line: Vec<u8>,
    leaves: String,
    ends: Vec<usize>,
    next: usize,
    /// Share of repeated submissions, as a fraction of 2^32.
    duplicates: u32,
    random: u64,
}

impl Submissions {
    /// Chooses the next leaf: a new leaf, or a leaf that was sent before.
    fn choose(&mut self) -> Option<u32> {
        // xorshift64* is random enough for this choice, and fast.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let random = self.random.wrapping_mul(0x2545_f491_4f6c_dd1d);
        if self.next > 0 && (random >> 32) as u32 <= self.duplicates && self.duplicates > 0 {
            return Some((random as u32 as usize % self.next) as u32 | REPEATED);
        }
        (self.next < self.ends.len()).then(|| {
            self.next += 1;
            self.next as u32 - 1
        })
    }

    /// Returns part `number` of `parts` equal parts of the leaves.
    pub(crate) fn part(mut self, number: usize, parts: usize) -> Self {
        let each = self.ends.len() / parts;
        self.next = number * each;
        self.ends.truncate(self.next + each);
        self
    }

    /// Returns the length of the first submission's body, in bytes.
    pub(crate) fn body_length(&self) -> usize {
        OPENING.len() + self.ends.first().unwrap_or(&0) + self.tail.len()
    }
}

const OPENING: &str = "{\"chain\":[\"";

impl Requests for Submissions {
    fn next(&mut self) -> Option<(u32, Pieces<'_>)> {
        let id = self.choose()?;
        let number = (id & !REPEATED) as usize;
        let start = if number == 0 {
            0
        } else {
            self.ends[number - 1]
        };
        let leaf = &self.leaves[start..self.ends[number]];
        let length = OPENING.len() + leaf.len() + self.tail.len();
        self.line.clear();
        let _ = write!(self.line, "{length}\r\n\r\n{OPENING}");
        let pieces = [
            self.head.as_bytes(),
            &self.line,
            leaf.as_bytes(),
            self.tail.as_bytes(),
        ];
        Some((id, pieces))
    }
}
