//! The files of a log for tests, as rounds write them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use lucarne_ct::{Certificate, Entry, Issuer, SignedEntry, sha256};
use lucarne_ctread::{Source, SourceError, gunzip};
use lucarne_mint::testing::Pki;
use lucarne_storage::{Asset, AssetError, Repairs};
use lucarne_tlog::{Checkpoint, Tile};
use parking_lot::RwLock;

use crate::data::round::{Round, issuer_asset, tile_assets};
use crate::data::tree::Tree;
use crate::data::verify::Verified;

/// A log's files in memory, in which each bit can be flipped.
#[derive(Default)]
pub(crate) struct Stored(pub(crate) RwLock<BTreeMap<String, Bytes>>);

#[async_trait]
impl Source for Stored {
    async fn read(&self, path: &str) -> Result<Option<Bytes>, SourceError> {
        Ok(self.0.read().get(path).cloned())
    }
}

#[async_trait]
impl Repairs for Stored {
    async fn replace(&self, asset: Asset) -> Result<Option<String>, AssetError> {
        self.0.write().insert(asset.path, asset.bytes);
        Ok(None)
    }
}

impl Stored {
    /// Creates a log of these entries, without superseded partial tiles. Returns its files and the
    /// signed tree.
    pub(crate) fn log(entries: impl IntoIterator<Item = Arc<Entry>>) -> (Arc<Stored>, Checkpoint) {
        let entries: Vec<_> = entries.into_iter().collect();
        let stored = Stored::default();
        let mut tree = Tree::empty();
        for entries in entries.chunks(1000) {
            let round = Round::encode(&tree, entries, Vec::new(), tree.timestamp_ms + 1);
            let mut round = Verified::check(&tree, entries, round).unwrap().into_round();
            let assets = tile_assets(round.tiles, &mut round.tree).unwrap();
            let issuers = entries.iter().flat_map(|entry| entry.issuers.iter());
            let issuers = issuers.map(|issuer| issuer_asset(&issuer.fingerprint, &issuer.der));
            let files = assets.into_iter().chain(issuers);
            let files = files.map(|asset| (asset.path, asset.bytes));
            stored.0.write().extend(files);
            tree = round.tree;
        }
        let wanted = |path: &str| match Tile::parse(path).or(Tile::parse_names(path)) {
            Ok(tile) => Tile::widest(tile.level(), tile.index(), tree.size()) == Some(tile),
            Err(_) => true,
        };
        stored.0.write().retain(|path, _| wanted(path));
        let signed = Checkpoint {
            origin: "log.example".into(),
            size: tree.size(),
            root: tree.root,
        };
        (Arc::new(stored), signed)
    }

    pub(crate) fn copy(&self) -> Arc<Stored> {
        Arc::new(Stored(RwLock::new(self.0.read().clone())))
    }

    /// Stores every data tile uncompressed, as TesseraCT does.
    pub(crate) fn store_plain(&self) {
        for (path, bytes) in self.0.write().iter_mut() {
            if path.starts_with("tile/data/") {
                *bytes = gunzip(bytes.clone()).unwrap();
            }
        }
    }

    pub(crate) fn flip(&self, path: &str, bit: usize) {
        let mut files = self.0.write();
        let mut bytes = files[path].to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        files.insert(path.to_owned(), bytes.into());
    }
}

type Submitted = (Bytes, Arc<[Arc<Issuer>]>);

/// Returns a certificate and a precertificate, each with its chain up to the root.
fn submitted() -> &'static [Submitted; 2] {
    static SUBMITTED: OnceLock<[Submitted; 2]> = OnceLock::new();
    SUBMITTED.get_or_init(|| {
        let pki = Pki::shared();
        let certificate = pki.certificate(&pki.p256, "repair.example").unwrap();
        let precertificate = pki.precertificate(&pki.p256, "repair.example").unwrap();
        [certificate, precertificate].map(|chain| {
            let mut chain = chain.into_certificates().into_iter();
            let leaf = chain.next().unwrap().into();
            let chain = chain.chain(pki.root.certificates().iter().cloned());
            let issuers = chain.map(|der| Arc::new(Issuer::new(der.into())));
            (leaf, issuers.collect())
        })
    })
}

/// Creates a log of `size` entries signed by authorities. Every third entry is a precertificate.
pub(crate) fn certified(size: u64) -> (Arc<Stored>, Checkpoint) {
    let issuer_key_hash = sha256(&[Pki::shared().p256.key().spki()]);
    Stored::log((0..size).map(|n| {
        let is_precertificate = n.is_multiple_of(3);
        let (der, issuers) = &submitted()[usize::from(is_precertificate)];
        let parsed = Certificate::parse(der).unwrap();
        let (signed, precertificate) = if is_precertificate {
            let tbs = lucarne_ct::tbs_without_poison(&parsed).into();
            let signed = SignedEntry::Precert {
                issuer_key_hash,
                tbs,
            };
            (signed, Some(der.clone()))
        } else {
            let certificate = der.clone();
            (SignedEntry::X509 { certificate }, None)
        };
        Arc::new(Entry {
            identity: signed.identity(),
            signed,
            precertificate,
            issuers: issuers.clone(),
        })
    }))
}
