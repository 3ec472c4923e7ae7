//! The means by which wrong files are put right.

use std::sync::Arc;

use anyhow::{Context, Result};
use futures_util::Stream;
use lucarne_ct::Fingerprint;
use lucarne_log::{
    Cure, Files, Finding, FsckPosition, Overlay, Repair, Repaired, Source, repair, superseded_anew,
};
use lucarne_storage::{Asset, AssetError, AssetKind, Repairs};
use lucarne_tlog::{Checkpoint, Tile};

use super::place::{Place, files_at};
use crate::cli;

/// Where right files come from, and where they are put.
pub(super) struct Mending {
    sources: Vec<Source>,
    repairs: Arc<dyn Repairs>,
}

impl Mending {
    /// The means that the options name. If nothing is to be written, `place` has from now on what
    /// would be.
    ///
    /// # Errors
    /// If one of the places is none, or nothing can be written there.
    pub(super) async fn of(place: &mut Place, options: &cli::Repair) -> Result<Mending> {
        let mut sources = Vec::new();
        for from in &options.from {
            let opened = files_at(from).await;
            let (files, _, place) = opened.with_context(|| format!("--from {from}"))?;
            sources.push(Source { place, files });
        }
        let mut repairs = place.repairs().await?;
        if options.dry_run {
            let overlay = Arc::new(Overlay::new(place.files.clone(), []));
            (place.files, repairs) = (overlay.clone(), overlay);
        }
        Ok(Mending { sources, repairs })
    }

    /// Puts the tree right, from this place on.
    pub(super) fn repair(
        &self,
        files: Arc<dyn Files>,
        signed: &Checkpoint,
        from: FsckPosition,
        at_once: usize,
    ) -> impl Stream<Item = Result<Repaired, AssetError>> + Send + use<> {
        let log = Repair {
            files,
            repairs: self.repairs.clone(),
            sources: self.sources.clone(),
            signed: signed.clone(),
            at_once,
        };
        repair(log, from)
    }

    /// Puts a partial tile right that is needed no more, or returns what is wrong with it.
    pub(super) async fn superseded(
        &self,
        files: &dyn Files,
        (tile, size): (Tile, u64),
        finding: Finding,
    ) -> Result<Result<Cure, Finding>> {
        match superseded_anew(files, tile, size).await {
            Some(asset) => Ok(Ok(self.replace(finding, asset, "the wider tile").await?)),
            None => Ok(Err(finding)),
        }
    }

    /// Puts an issuer right that no entry needs.
    pub(super) async fn issuer(
        &self,
        issuer: &Fingerprint,
        finding: Finding,
    ) -> Result<Result<Cure, Finding>> {
        for source in &self.sources {
            let read = source.files.read(&finding.path).await;
            if let Ok(Some(der)) = read
                && Fingerprint::of(&der) == *issuer
            {
                let asset = Asset::new(finding.path.as_str(), der, AssetKind::Issuer);
                return Ok(Ok(self.replace(finding, asset, &source.place).await?));
            }
        }
        Ok(Err(finding))
    }

    async fn replace(&self, finding: Finding, asset: Asset, from: &str) -> Result<Cure> {
        let kept = self.repairs.replace(asset).await?;
        let from = from.to_owned();
        Ok(Cure {
            finding,
            from,
            kept,
        })
    }
}
