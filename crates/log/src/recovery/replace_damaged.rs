//! The replacement of a damaged file by its correct content.

use lucarne_storage::{Asset, AssetError, Assets};

use crate::config::LogConfig;

/// Replaces a damaged file with the content `right`. Logs the source of the content (`from`), and
/// the path at which the damaged file is kept.
///
/// # Errors
/// If storage fails.
pub(crate) async fn replace_damaged(
    config: &LogConfig,
    assets: &dyn Assets,
    right: Asset,
    from: &str,
) -> Result<(), AssetError> {
    let path = right.path.clone();
    let kept = assets.replace(right).await?;
    tracing::error!(
        log = config.shortname,
        location = assets.location(),
        path,
        kept,
        from,
        "restored a damaged file: check disk and memory, and run lucarne fsck"
    );
    Ok(())
}
