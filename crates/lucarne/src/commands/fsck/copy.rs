//! The check and the repair of a mirror's copy of a log.
//!
//! The copy of a static CT log has the files of the log, and is checked like the log. Other copies
//! have bundles of entries, which the leaf hashes cover completely.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use lucarne_cosign::mirror::{CopyCheck, EntryFormat};
use lucarne_ct::sha256;
use lucarne_ctread::{ReadError, Source, is_gzip};
use lucarne_log::{Cure, Finding, Overlay};
use lucarne_storage::{Asset, AssetKind, Encoding, Repairs};
use lucarne_tlog::{Checkpoint, SignedNote, TILE_WIDTH};

use super::options::{Fsck, Repair};
use super::place::{Place, files_at, opened};
use super::report::Report;
use super::verdict;
use crate::config::{Config, DataPlace, MirrorSettings};
use crate::{mirror, open};

/// The copy of a log.
pub(super) struct Copy {
    origin: String,
    pub(super) format: EntryFormat,
    data: DataPlace,
    mirror: MirrorSettings,
}

impl Copy {
    /// Returns the copy of the log with this origin, or the only one; `None` if there is none.
    pub(super) fn named(config: &Config, origin: Option<&str>) -> Option<Self> {
        let mirror = config.mirror.clone()?;
        let (origin, from) = match (origin, &mirror.logs[..]) {
            (Some(origin), logs) => logs.iter().find(|(of, _)| of == origin)?.clone(),
            (None, [log]) if config.logs.is_empty() => log.clone(),
            (None, _) => return None,
        };
        let hash = hex::encode(sha256(&[origin.as_bytes()]));
        Some(Self {
            format: match from {
                Some(_) => EntryFormat::StaticCt,
                None => EntryFormat::Bundles,
            },
            data: mirror.data.value.below(&hash),
            origin,
            mirror,
        })
    }

    /// Opens the copy of a static CT log.
    ///
    /// # Errors
    /// If the copy does not exist.
    pub(super) async fn place(self) -> Result<Place> {
        let (files, location) = opened(&self.data).await?;
        Ok(Place {
            location,
            files,
            verifier: mirror::verifier(&self.mirror, &self.origin)?,
            data: Some(self.data),
            configured: None,
            by_its_own_key: false,
            is_rfc6962: false,
        })
    }

    /// Returns the checkpoint, which the mirror has cosigned.
    async fn checkpoint(&self, files: &dyn Source) -> Result<Checkpoint> {
        let note = files.read("checkpoint").await?;
        let note = note.context("is missing: the mirror has not cosigned this log")?;
        let note = SignedNote::parse(&note)?;
        let mut keys = self.mirror.cosigners.iter();
        let is_own = keys.any(|key| matches!(key.verifier().verify(&note), Ok(Some(_))));
        ensure!(is_own, "it has no valid cosignature of the mirror");
        let (checkpoint, _) = Checkpoint::parse_extended(&note.text)?;
        ensure!(
            checkpoint.origin == self.origin,
            "its origin is {:?}",
            checkpoint.origin
        );
        Ok(checkpoint)
    }

    /// Checks a copy with bundles, and repairs it from other places.
    ///
    /// # Errors
    /// If its checkpoint cannot be read and verified.
    pub(super) async fn check(self, options: &Fsck, repair: Option<&Repair>) -> Result<ExitCode> {
        let (files, location) = opened(&self.data).await?;
        let is_trial = repair.is_some_and(|repair| repair.dry_run);
        let mut report = Report::new(options.json, is_trial);
        let checkpoint = self.checkpoint(&*files).await;
        let checkpoint = checkpoint.with_context(|| format!("the checkpoint in {location}"))?;
        let mending = Mending::of(&self, files, repair).await?;
        let begun = CopyCheck::begin(&*mending.files, self.format, &checkpoint).await;
        let (mut checked, mut bytes) = (0, 0);
        match begun {
            Err(error) => report.finding(&finding(error)),
            Ok(mut check) => {
                for index in 0..check.tiles() {
                    bytes += mending.tile(&mut check, index, &mut report).await?;
                    checked = ((index + 1) * TILE_WIDTH).min(checkpoint.size);
                    report.progress(checked, 0, checkpoint.size, bytes);
                }
            }
        }
        let (verdict, code) = verdict(checked == checkpoint.size, &report);
        report.end(verdict, (0, checked), bytes, checkpoint.size);
        Ok(code)
    }
}

/// The sources of correct files, and the place to write them to.
struct Mending {
    /// The files, with the files of a trial.
    files: Arc<Overlay>,
    sources: Vec<(String, Arc<dyn Source>)>,
    /// `None` in a check or a trial.
    repairs: Option<Arc<dyn Repairs>>,
}

impl Mending {
    async fn of(copy: &Copy, files: Arc<dyn Source>, repair: Option<&Repair>) -> Result<Self> {
        let (mut sources, mut repairs) = (Vec::new(), None);
        if let Some(repair) = repair {
            for from in &repair.from {
                let opened = files_at(from).await;
                let (files, _, name) =
                    opened.with_context(|| format!("cannot use --from {from}"))?;
                sources.push((name, files));
            }
            if !repair.dry_run {
                repairs = Some(open::repairs(&copy.data).await?);
            }
        }
        Ok(Self {
            files: Arc::new(Overlay::new(files, [])),
            sources,
            repairs,
        })
    }

    /// Checks the files of a data tile, and repairs each once. Returns the number of bytes read.
    async fn tile(&self, check: &mut CopyCheck, index: u64, report: &mut Report) -> Result<u64> {
        let mut repaired = Vec::new();
        loop {
            let error = match check.tile(&*self.files, index).await {
                Ok(bytes) => return Ok(bytes as u64),
                Err(error) => error,
            };
            let cured = if repaired.contains(&error.path) {
                None
            } else {
                self.repair(check, index, &error.path, report).await?
            };
            let path = error.path.clone();
            let finding = finding(error);
            let Some((from, kept)) = cured else {
                report.finding(&finding);
                return Ok(0);
            };
            report.cure(&Cure {
                finding,
                from,
                kept,
            });
            repaired.push(path);
        }
    }

    /// Replaces the file at `path` by the first correct file of the sources. Returns the source,
    /// and the location of the old file.
    async fn repair(
        &self,
        check: &mut CopyCheck,
        index: u64,
        path: &str,
        report: &Report,
    ) -> Result<Option<(String, Option<String>)>> {
        for (from, source) in &self.sources {
            let Ok(Some(offer)) = source.read(path).await else {
                continue;
            };
            let trial = [(path.to_owned(), offer.clone())];
            let trial = Overlay::new(self.files.clone(), trial);
            match check.tile(&trial, index).await {
                Err(error) if error.path == path => {
                    report.note(&format!("not taken from {from}: {error}"));
                    continue;
                }
                // Another file of this tile may be wrong, too.
                _ => {}
            }
            let kept = match &self.repairs {
                Some(repairs) => repairs.replace(asset(path, offer)).await?,
                None => self.files.replace(asset(path, offer)).await?,
            };
            return Ok(Some((from.clone(), kept)));
        }
        Ok(None)
    }
}

fn asset(path: &str, bytes: Bytes) -> Asset {
    let encoding = if is_gzip(&bytes) {
        Encoding::Gzip
    } else {
        Encoding::Identity
    };
    let kind = if path.starts_with("tile/entries/") {
        AssetKind::DataTile { encoding }
    } else {
        AssetKind::HashTile
    };
    Asset::new(path, bytes, kind)
}

fn finding(error: ReadError) -> Finding {
    Finding {
        path: error.path,
        offset: None,
        entry: None,
        problem: error.problem.into(),
    }
}
