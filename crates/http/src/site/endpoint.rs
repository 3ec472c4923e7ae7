//! Endpoints of the metrics.

use super::EndpointSet;
use crate::metrics::Endpoint;
use crate::route::Resource;

/// Returns the endpoint of one of the site's own paths.
pub(super) fn of_site(endpoints: EndpointSet, path: &str) -> Endpoint {
    let operations = endpoints != EndpointSet::Logs;
    let pages = endpoints != EndpointSet::Operations;
    match path {
        "/metrics" | "/health" if operations => Endpoint::Operations,
        "/" | "/page.css" | "/errors" | "/robots.txt" | "/logs.v3.json" | "/operator.json"
            if pages =>
        {
            Endpoint::Page
        }
        _ => Endpoint::Unknown,
    }
}

/// Returns the endpoint of a resource of a log.
pub(super) fn of_resource(resource: Resource) -> Endpoint {
    match resource {
        Resource::AddChain => Endpoint::AddChain,
        Resource::AddPreChain => Endpoint::AddPreChain,
        Resource::CheckChain => Endpoint::CheckChain,
        Resource::GetRoots => Endpoint::GetRoots,
        Resource::Checkpoint => Endpoint::Checkpoint,
        Resource::Tile(tile) if Resource::is_data(tile) => Endpoint::DataTile,
        Resource::Tile(_) => Endpoint::Tile,
        Resource::Names(_) => Endpoint::NamesTile,
        Resource::Issuer(_) => Endpoint::Issuer,
        Resource::LogJson => Endpoint::LogJson,
        Resource::Feed => Endpoint::Feed,
        Resource::Rfc6962(_) => Endpoint::Rfc6962,
        Resource::NotFound(_) => Endpoint::Unknown,
        Resource::Page
        | Resource::Stats
        | Resource::Style
        | Resource::Script
        | Resource::Errors
        | Resource::Redirect => Endpoint::Page,
    }
}
