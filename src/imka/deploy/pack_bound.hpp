// Lower bounds for packing rectangles into bins: no packing needs fewer bins.
#pragma once

#include <vector>

#include "imka/deploy/pack.hpp"

namespace imka {

// The best of: area; rectangles of more than half a bin in both directions, no two of which share a bin;
// products of dual feasible functions of both sides (Fekete and Schepers 2001; Carlier, Clautiaux and Moukrim
// 2007), which include the bounds of Martello and Vigo 1998; loads. Exact: integers only, except for loads.
PackBound pack_bound(const std::vector<PackItem>& items, const PackBin& bin);

// Area and loads alone: the bound for items that may be cut anywhere.
PackBound cut_bound(const std::vector<PackItem>& items, const PackBin& bin);

}  // namespace imka
