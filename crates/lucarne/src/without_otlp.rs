//! Stand-ins for the export of traces and metrics. The configuration of an export is refused.

use std::sync::Arc;

use lucarne_http::Site;
use prometheus_client::registry::Registry;

use crate::config::OtlpSettings;

pub(crate) struct Exporter;

pub(crate) struct Exporting;

impl Exporter {
    pub(crate) fn register(_settings: Option<&OtlpSettings>, _registry: &mut Registry) -> Self {
        Exporter
    }

    pub(crate) fn start(self, _site: &Arc<Site>) -> Exporting {
        Exporting
    }
}

impl Exporting {
    #[cfg(feature = "load")]
    pub(crate) fn metrics(settings: &OtlpSettings, _render: impl Fn() -> String) -> Self {
        match *settings {}
    }

    pub(crate) async fn finish(self) {}
}
