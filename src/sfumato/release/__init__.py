"""What leaves the building: releases, the recodings they are made by, how they are written."""
