//! [`PosixAssets`].

use std::path::Path;

use async_trait::async_trait;
use bytes::Bytes;

use crate::{Asset, Assets, Error, Stats};

/// Assets in a directory of a POSIX file system.
pub struct PosixAssets {}

#[allow(clippy::todo, unused_variables)]
impl PosixAssets {
    /// Opens the directory of an existing log.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, Error> {
        todo!()
    }

    /// Makes the directory where it does not exist, and opens it.
    pub fn create(directory: impl AsRef<Path>) -> Result<Self, Error> {
        todo!()
    }
}

#[allow(clippy::todo, unused_variables)]
#[async_trait]
impl Assets for PosixAssets {
    async fn stage(&self, new_size: u64, record: Bytes) -> Result<(), Error> {
        todo!()
    }
    async fn staged(&self) -> Result<Vec<Bytes>, Error> {
        todo!()
    }
    async fn publish(&self, assets: Vec<Asset>) -> Result<(), Error> {
        todo!()
    }
    async fn settle(&self, size: u64) -> Result<(), Error> {
        todo!()
    }
    async fn get(&self, path: &str) -> Result<Option<Bytes>, Error> {
        todo!()
    }
    async fn remove_partials(&self, tiles: &[String]) -> Result<(), Error> {
        todo!()
    }
    async fn partials(&self, tile_path: &str) -> Result<Vec<u16>, Error> {
        todo!()
    }
    async fn headroom(&self) -> Result<Option<u64>, Error> {
        todo!()
    }
    fn stats(&self) -> &Stats {
        todo!()
    }
    fn location(&self) -> String {
        todo!()
    }
}
